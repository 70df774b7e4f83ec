// Products of 8-bit integers: the exact sum, rounded once to the type of the result.

#include <soma/ops/product/matmul.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/every_target.hpp"
#include "support/stored_run.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

using namespace soma;

namespace {

struct Operands {
  Tensor a, b;
  std::size_t m, n, k;
};

// Numbers near the largest: their sums have the most digits.
Tensor filled(Context& context, const Shape& shape, DType dtype, std::uint64_t seed) {
  const Tensor tensor = Tensor::empty(context, shape, dtype);
  auto* bytes = reinterpret_cast<unsigned char*>(tensor.mutable_raw());
  for (std::size_t i = 0; i < tensor.elements(); ++i) {
    const std::uint32_t below = random_word({.seed = seed}, i) % 29;
    const int value = dtype == DType::uint8 ? 255 - static_cast<int>(below)
                      : below % 7 == 0      ? -128 + static_cast<int>(below)
                                            : 127 - static_cast<int>(below);
    bytes[i] = static_cast<unsigned char>(value);
  }
  return tensor;
}

Operands operands(Context& context, std::size_t m, std::size_t n, std::size_t k, DType a, DType b) {
  return {filled(context, Shape{m, k}, a, 1), filled(context, Shape{k, n}, b, 2), m, n, k};
}

std::int64_t element(const Tensor& tensor, std::size_t index) {
  const std::byte* at = tensor.raw() + index;
  return tensor.dtype() == DType::int8 ? std::int64_t{*reinterpret_cast<const std::int8_t*>(at)}
                                       : std::int64_t{*reinterpret_cast<const std::uint8_t*>(at)};
}

std::vector<std::int64_t> exact(const Operands& x, const MatmulSetting& setting = {}) {
  std::vector<std::int64_t> sums(x.m * x.n);
  for (std::size_t i = 0; i < x.m; ++i)
    for (std::size_t j = 0; j < x.n; ++j)
      for (std::size_t p = 0; p < x.k; ++p)
        sums[i * x.n + j] += (element(x.a, i * x.k + p) - setting.a.zero_point) *
                             (element(x.b, p * x.n + j) - setting.b.zero_point);
  return sums;
}

Tensor product(Context& context, const Operands& x, const MatmulSetting& setting) {
  return run(context, ops::matmul, setting, {x.a, x.b})[0];
}

constexpr DType integers[] = {DType::int8, DType::uint8};

}  // namespace

TEST_CASE("products of 8-bit integers are exact sums, rounded once", "[unit][matmul]") {
  soma_test::on_every_target([](Context& context) {
    for (const DType a : integers)
      for (const DType b : integers)
        for (const std::size_t k : std::vector<std::size_t>{0, 1, 63, 1007, 1009, 5000, 140'000}) {
          const std::size_t m = k > 5000 ? 2 : 5, n = k > 5000 ? 1 : 67;
          const Operands x = operands(context, m, n, k, a, b);
          for (const int zero : {0, 3, a == DType::uint8 ? 255 : 127}) {
            MatmulSetting setting{.a = {.zero_point = zero}, .b = {.zero_point = zero / 2}};
            const std::vector<std::int64_t> sums = exact(x, setting);
            INFO(std::string(to_string(a)) << " times " << std::string(to_string(b)) << ", k " << k
                                           << ", zero point " << zero);
            const auto whole = product(context, x, setting);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < sums.size(); ++i)
              wrong += whole.span<float>()[i] != static_cast<float>(sums[i]);
            CHECK(wrong == 0);
            setting.output = DType::int64;
            const auto wide = product(context, x, setting);
            for (std::size_t i = 0; i < sums.size(); ++i)
              wrong += wide.span<std::int64_t>()[i] != sums[i];
            CHECK(wrong == 0);
            for (const DType narrow : {DType::bf16, DType::fp16, DType::tf32}) {
              setting.output = narrow;
              const auto rounded = product(context, x, setting);
              for (std::size_t i = 0; i < sums.size(); ++i)
                wrong += soma_test::value_of(
                             narrow, std::span(rounded.raw(), sums.size() * size_of(narrow)), i) !=
                         decode(format_of(narrow),
                                encode(format_of(narrow), static_cast<double>(sums[i])));
              CHECK(wrong == 0);
            }
          }
        }
  });
}

TEST_CASE("scales of integers multiply the exact sum", "[unit][matmul]") {
  auto context = make_context();
  for (const std::size_t k : std::vector<std::size_t>{10, 3000}) {
    const Operands x = operands(context, 4, 5, k, DType::int8, DType::uint8);
    float factor = 1;
    MatmulSetting setting{.a = {0.3f, -2}, .b = {0.0007f, 128}};
    const std::vector<std::int64_t> sums = exact(x, setting);
    const double scale = static_cast<double>(0.3f) * static_cast<double>(0.0007f);
    const Tensor scaled = product(context, x, setting);
    setting.factor = &factor;
    const Tensor plain = product(context, x, setting);
    CHECK(factor == static_cast<float>(scale));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      CHECK(scaled.span<float>()[i] == static_cast<float>(static_cast<double>(sums[i]) * scale));
      CHECK(plain.span<float>()[i] == static_cast<float>(sums[i]));
    }
  }
}

TEST_CASE("a product of integers may be an int32 tensor, if it fits", "[unit][matmul]") {
  auto context = make_context();
  const auto ones = [&](std::size_t k, std::int8_t a, std::int8_t b) {
    return Operands{Tensor::full<std::int8_t>(context, Shape{1, k}, a),
                    Tensor::full<std::int8_t>(context, Shape{k, 1}, b), 1, 1, k};
  };
  const MatmulSetting setting{.output = DType::int32};
  CHECK(product(context, ones(131'071, -128, -128), setting).span<std::int32_t>()[0] ==
        131'071 * 16'384);
  CHECK(product(context, ones(132'104, -128, 127), setting).span<std::int32_t>()[0] ==
        -132'104 * 16'256);
  const auto id = [&](const Operands& x, const MatmulSetting& how) {
    return soma_test::id_of([&] { product(context, x, how); });
  };
  CHECK(id(ones(131'072, -128, -128), setting) == "operator.value");
  const Operands x = ones(3, 1, 2);
  CHECK(id(x, {.a = {2}, .output = DType::int32}) == "operator.value");
  CHECK(id(x, {.output = DType::int8}) == "operator.value");
  CHECK(id(x, {.a = {1, 1 << 30}}) == "operator.value");
  const Tensor floats = Tensor::zeros(context, Shape{2, 2});
  CHECK(id({floats, floats, 2, 2, 2}, setting) == "operator.value");
}
