#pragma once
// Products of 8-bit integers. Their sums are exact, and the result is rounded once. fp32 adds
// integers exactly while all sums of magnitudes stay below 2^24, whatever the order and the
// instructions. So the products of kernels/gemm/ run for that many steps of k at a time, and longer
// sums continue in 64 bits.

#include <soma/kernels/gemm/multiply.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

inline bool has_8bit_integers(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  return dtype == DType::int8 || dtype == DType::uint8 || dtype == DType::boolean;
}

// The number of products of such operands that fp32 adds exactly. A 64th is kept in reserve for
// tiles, which may add the parts of a number that is not exact in bf16: the magnitudes of the parts
// can exceed the number's by 2^-7.
inline std::size_t exact_products(const MatrixOperand& a, const MatrixOperand& b) {
  const auto largest = [](const MatrixOperand& operand) {
    const std::int64_t low = operand.dtype == DType::int8 ? -128 : 0, zero = operand.zero_point;
    return static_cast<std::size_t>((std::max)(std::abs(low - zero), std::abs(low + 255 - zero)));
  };
  const std::size_t of_a = largest(a), of_b = largest(b);
  constexpr std::size_t most = (std::size_t{1} << 24) / 64 * 63;
  const std::size_t steps = of_a > most ? 0 : most / of_a / of_b;
  if (steps == 0)
    fail(error_id::operator_value, "matmul", "zero_point",
         std::to_string(a.zero_point) + " and " + std::to_string(b.zero_point),
         "zero points with products below 2^24");
  return steps;
}

// Rounds to fp32 and sets the last bit if the number lies between two: a second rounding, to a type
// with at most 22 digits, then equals one rounding of the number.
inline float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

template <class Integer>
Integer checked_sum(std::int64_t sum) {
  if (sum < (std::numeric_limits<Integer>::min)() || sum > (std::numeric_limits<Integer>::max)())
    fail(error_id::operator_value, "matmul", "result", std::to_string(sum),
         "a number of the output's type (output int64 or fp32 holds it)");
  return static_cast<Integer>(sum);
}

// Stores the elements of c: the exact sums sum(i), times `factor`.
template <class Sum>
void store_integer_sums(Context& context, std::size_t count, const Sum& sum, double factor,
                        const MatrixTarget& c) {
  for_ranges(context, count, 4, [&](std::size_t begin, std::size_t end) {
    const auto write = [&]<class T>(T* out, const auto& value) {
      for (std::size_t i = begin; i < end; ++i) out[i] = value(i);
    };
    const auto scaled = [&](std::size_t i) { return static_cast<double>(sum(i)) * factor; };
    if (c.dtype == DType::int32)
      write(static_cast<std::int32_t*>(c.data),
            [&](std::size_t i) { return checked_sum<std::int32_t>(sum(i)); });
    else if (c.dtype == DType::int64)
      write(static_cast<std::int64_t*>(c.data), sum);
    else if (c.dtype == DType::fp32)
      write(static_cast<float*>(c.data),
            [&](std::size_t i) { return static_cast<float>(scaled(i)); });
    else
      for (std::size_t at = begin; at < end;) {
        float chunk[256];
        const std::size_t taken = (std::min)(std::size(chunk), end - at);
        for (std::size_t i = 0; i < taken; ++i) chunk[i] = rounded_to_odd(scaled(at + i));
        context.kernels().element.unary({.function = Unary::copy,
                                         .rows = 1,
                                         .columns = taken,
                                         .x = {.data = chunk},
                                         .y = part(c, 0, at)});
        at += taken;
      }
  });
}

// c = a b with exact sums, times the scales in double. c has no gaps, and may have an integer type.
// Errors operator.value: a sum beyond an int32 c, or zero points far outside of their type.
inline void multiply_integers(Context& context, GemmArgs args) {
  double factor = static_cast<double>(args.a.scale) * static_cast<double>(args.b.scale);
  if (args.factor != nullptr) {
    *args.factor = static_cast<float>(factor);
    factor = 1;
  }
  args.factor = nullptr;
  args.a.scale = args.b.scale = 1;
  const std::size_t steps = exact_products(args.a, args.b);
  if (args.k <= steps && factor == 1 && is_floating(args.c.dtype)) return multiply(context, args);
  args.segments = {};
  args.stream_c = false;
  const MatrixTarget c = args.c;
  const std::size_t count = args.m * args.n;
  const Tensor product = Tensor::empty(context, Shape{args.m, args.n});
  args.c = target(product);
  const float* some = product.data<float>();
  if (args.k <= steps) {
    multiply(context, args);
    const auto sum = [some](std::size_t i) { return static_cast<std::int64_t>(some[i]); };
    return store_integer_sums(context, count, sum, factor, c);
  }
  HeapVector<std::int64_t> sums(count, context.heap());
  std::fill(sums.begin(), sums.end(), 0);
  const GemmArgs all = args;
  for (std::size_t first = 0; first < all.k; first += steps) {
    args.k = (std::min)(steps, all.k - first);
    args.a = part(all.a, 0, first);
    args.b = part(all.b, first, 0);
    multiply(context, args);
    for_ranges(context, count, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) sums[i] += static_cast<std::int64_t>(some[i]);
    });
  }
  store_integer_sums(
      context, count, [&sums](std::size_t i) { return sums[i]; }, factor, c);
}

// Checks a product whose result has an integer type. Errors operator.value.
inline void check_integer_output(std::span<const Tensor> inputs, const MatmulSetting& setting) {
  const auto refuse = [](const std::string& given, std::string_view wanted) {
    fail(error_id::operator_value, "matmul", "output", given, wanted);
  };
  const std::string type(to_string(*setting.output));
  if (*setting.output != DType::int32 && *setting.output != DType::int64)
    refuse(type, "a floating type, int32 or int64");
  if (!has_8bit_integers(inputs[0]) || !has_8bit_integers(inputs[1]))
    refuse(type + " of " + inputs[0].describe() + " and " + inputs[1].describe(),
           "a floating type, or operands that are 8-bit integers");
  if (setting.a.scale != 1 || setting.b.scale != 1 || setting.factor != nullptr ||
      !setting.accumulation.plain())
    refuse(type, "a floating type, or a product without scales and with the usual accumulation");
}

}  // namespace SOMA_NAMESPACE::detail
