#pragma once
// Cast: the same numbers in another element type.
//
// To a floating type: rounded once by the setting, from integers of any size too. To an integer
// type: rounded by the setting (by default to nearest, ties to even), then saturated, because a
// number outside of the type has no code; NaN becomes 0. PyTorch and NumPy cut the fraction off, as
// RoundingMode::toward_zero does, and leave the other cases undefined. To a bool: true if the
// number is not 0.

#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline void cast_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<CastSetting>();
  if (!is_floating(setting.dtype) && setting.rounding.mode == RoundingMode::stochastic)
    fail(error_id::operator_value, "cast", "rounding.mode", "stochastic",
         "a deterministic one for " + std::string(to_string(setting.dtype)));
  check_random_bits("cast", "rounding.random_bits", setting.rounding);
  call.outputs[0] = {call.inputs[0].shape(), setting.dtype};
}

// A number of `digits` bits that rounds to fewer bits as `value` does: the last bit is set if bits
// were cut off.
template <int digits>
double rounded_to_odd(std::int64_t value) {
  const std::uint64_t magnitude =
      value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value) : std::uint64_t(value);
  const int cut = static_cast<int>(std::bit_width(magnitude)) - digits;
  if (cut <= 0) return static_cast<double>(value);
  const std::uint64_t kept = magnitude >> cut;
  const double rounded = std::ldexp(static_cast<double>(kept | (kept << cut != magnitude)), cut);
  return value < 0 ? -rounded : rounded;
}

inline double rounded_to_whole(double value, RoundingMode mode) {
  switch (mode) {
    case RoundingMode::nearest_away:
      return std::round(value);
    case RoundingMode::toward_zero:
      return std::trunc(value);
    case RoundingMode::up:
      return std::ceil(value);
    case RoundingMode::down:
      return std::floor(value);
    default:
      break;
  }
  // The sum has no room for a fraction. Larger fp32 numbers have no fraction.
  return std::abs(value) < 0x1p24 ? (value + 0x1.8p52) - 0x1.8p52 : value;
}

template <class Integer, class Number>  // double or std::int64_t
Integer saturated(Number value) {
  if (value != value) return 0;
  constexpr Integer low = (std::numeric_limits<Integer>::min)();
  constexpr Integer high = (std::numeric_limits<Integer>::max)();
  if (value <= static_cast<Number>(low)) return low;
  return value >= static_cast<Number>(high) ? high : static_cast<Integer>(value);
}

// Calls function(zero of the type) for an integer type; a bool is a byte.
template <class Function>
void with_integer(DType dtype, const Function& function) {
  if (dtype == DType::int8) return function(std::int8_t{});
  if (dtype == DType::int16) return function(std::int16_t{});
  if (dtype == DType::int32) return function(std::int32_t{});
  if (dtype == DType::int64) return function(std::int64_t{});
  if (dtype == DType::uint16) return function(std::uint16_t{});
  if (dtype == DType::uint32) return function(std::uint32_t{});
  function(std::uint8_t{});
}

inline constexpr std::size_t cast_chunk = 256;  // elements

// Stores elements of an integer type from double or std::int64_t.
template <class Number>
void store_integers(const Number* from, std::size_t count, const CastSetting& setting,
                    std::byte* to) {
  with_integer(setting.dtype, [&]<class Integer>(Integer) {
    auto* out = reinterpret_cast<Integer*>(to);
    for (std::size_t i = 0; i < count; ++i)
      if constexpr (std::is_same_v<Number, double>)
        out[i] = setting.dtype == DType::boolean
                     ? static_cast<Integer>(from[i] != 0)
                     : saturated<Integer>(rounded_to_whole(from[i], setting.rounding.mode));
      else
        out[i] = setting.dtype == DType::boolean ? static_cast<Integer>(from[i] != 0)
                                                 : saturated<Integer>(from[i]);
  });
}

// Stores elements of a floating type from integers of up to 64 bits, from element `first` on.
inline void store_floats(Context& context, const std::int64_t* from, std::size_t count,
                         const CastSetting& setting, std::size_t first, std::byte* to) {
  const FloatFormat& format = format_of(setting.dtype);
  if (setting.rounding.mode == RoundingMode::nearest_even) {
    float values[cast_chunk];
    for (std::size_t i = 0; i < count; ++i)
      if (setting.dtype == DType::fp32)
        values[i] = static_cast<float>(from[i]);
      else
        values[i] = static_cast<float>(rounded_to_odd<24>(from[i]));
    return context.kernels().element.unary({.function = Unary::copy,
                                            .rows = 1,
                                            .columns = count,
                                            .x = {.data = values},
                                            .y = {.data = to, .dtype = setting.dtype}});
  }
  const int bits = random_bits(setting.rounding, format);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t random =
        setting.rounding.mode == RoundingMode::stochastic
            ? rounding_word(setting.draw, bits, first + i, setting.rounding.draws)
            : 0;
    const std::uint32_t code = encode(format, rounded_to_odd<53>(from[i]), setting.rounding, random)
                               << format.storage_shift();
    std::memcpy(to + i * size_of(setting.dtype), &code, size_of(setting.dtype));
  }
}

// Casts elements first ... end - 1 if one of the types is an integer type.
inline void cast_integers(Context& context, const Tensor& x, const CastSetting& setting,
                          std::size_t first, std::size_t end, std::byte* y) {
  for (std::size_t count = 0; first < end; first += count) {
    count = (std::min)(cast_chunk, end - first);
    const std::byte* from = x.raw() + first * size_of(x.dtype());
    std::byte* to = y + first * size_of(setting.dtype);
    if (is_floating(x.dtype())) {
      float values[cast_chunk];
      context.kernels().element.unary({.function = Unary::copy,
                                       .rows = 1,
                                       .columns = count,
                                       .x = {.data = from, .dtype = x.dtype()},
                                       .y = {.data = values}});
      double wide[cast_chunk];
      std::copy_n(values, count, wide);
      store_integers(wide, count, setting, to);
      continue;
    }
    std::int64_t values[cast_chunk];
    with_integer(x.dtype(), [&]<class Integer>(Integer) {
      std::copy_n(reinterpret_cast<const Integer*>(from), count, values);
    });
    if (is_floating(setting.dtype))
      store_floats(context, values, count, setting, first, to);
    else
      store_integers(values, count, setting, to);
  }
}

inline void cast_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<CastSetting>();
  const Tensor x = contiguous(call.context, call.inputs[0]);
  MatrixTarget y = target(call.outputs[0]);
  y.rounding = setting.rounding;
  y.draw = setting.draw;
  // 8-bit integers are exact in fp32, so kernels read them as fp32.
  const bool kernel =
      is_floating(setting.dtype) && (is_floating(x.dtype()) || size_of(x.dtype()) == 1);
  for_ranges(call.context, x.elements(), 4, [&](std::size_t begin, std::size_t end) {
    if (!kernel)
      return cast_integers(call.context, x, setting, begin, end, static_cast<std::byte*>(y.data));
    MatrixOperand from{.data = x.raw(), .dtype = x.dtype()};
    call.context.kernels().element.unary({.function = Unary::copy,
                                          .rows = 1,
                                          .columns = end - begin,
                                          .x = part(from, 0, begin),
                                          .y = part(y, 0, begin)});
  });
}
inline void cast_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator cast{.name = "cast",
                               .shape = &detail::cast_shape,
                               .host = &detail::cast_host,
                               .gradient = &detail::cast_gradient,
                               .wide_gradients = true,
                               .built_in_samples = true};

}  // namespace ops

// Passes the gradient, which the tape casts where it is read. Integers have none.
inline void detail::cast_gradient(const GradientCall& call) {
  if (is_floating(call.inputs[0].dtype()) && is_floating(call.attributes.as<CastSetting>().dtype))
    call.input_gradients[0].values = call.output_gradients[0];
}

}  // namespace SOMA_NAMESPACE
