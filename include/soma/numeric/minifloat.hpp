#pragma once
// minifloat<format>: a number in any FloatFormat, as small as the format allows (1, 2 or 4 bytes).
//
// Trivially copyable, no invariant: every bit pattern is a value. Arithmetic computes the exact
// result and rounds it once to the format, nearest-even: through float where double rounding is
// provably harmless, through double elsewhere.
// std::numeric_limits, hashing, text: numeric/minifloat_traits.hpp; std::format:
// numeric/minifloat_format.hpp. Many numbers at a time: kernels/convert/convert.hpp.

#include <soma/numeric/codec.hpp>
#include <soma/numeric/formats.hpp>

#include <bit>
#include <compare>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace SOMA_NAMESPACE {

template <FloatFormat Format>
class minifloat {
  static_assert(Format.problem() == nullptr,
                "impossible FloatFormat record: see FloatFormat::problem() for what it lacks");

 public:
  static constexpr FloatFormat format = Format;
  using Storage =
      std::conditional_t<Format.bytes() == 1, std::uint8_t,
                         std::conditional_t<Format.bytes() == 2, std::uint16_t, std::uint32_t>>;

  minifloat() = default;  // uninitialised, as float

  // Nearest-even unless another rounding is given; `random` is for stochastic rounding
  // (rounding_word in draw.hpp).
  constexpr explicit minifloat(float value, const Rounding& rounding = {}, std::uint32_t random = 0)
      : storage_(store(encode(Format, value, rounding, random))) {}
  constexpr explicit minifloat(double value, const Rounding& rounding = {},
                               std::uint32_t random = 0)
      : storage_(store(encode(Format, value, rounding, random))) {}
  // Integers up to 2^53 in magnitude are exact before the one rounding; larger integers are rounded
  // to double first.
  template <std::integral Integer>
  constexpr explicit minifloat(Integer value) : minifloat(static_cast<double>(value)) {}
  // Conversion from another format, rounded once.
  template <FloatFormat Other>
  requires(Other != Format) constexpr explicit minifloat(minifloat<Other> other,
                                                         const Rounding& rounding = {},
                                                         std::uint32_t random = 0)
      : minifloat(static_cast<float>(other), rounding, random) {}

  // The exact value: every format's values are fp32 values.
  constexpr operator float() const { return decode(Format, code()); }

  // The stored bits (in 4 bytes: the code at the top, so a tf32's bits are an fp32's).
  constexpr Storage bits() const { return storage_; }
  static constexpr minifloat from_bits(Storage bits) {
    minifloat value{};
    value.storage_ = bits;
    return value;
  }
  // The code: the format's bits as an integer.
  constexpr std::uint32_t code() const {
    return static_cast<std::uint32_t>(storage_) >> Format.storage_shift();
  }
  static constexpr minifloat from_code(std::uint32_t code) { return from_bits(store(code)); }

  constexpr minifloat operator+() const { return *this; }
  // Flips the sign bit, of NaN too. A zero or NaN without sign stays; an unsigned format negates by
  // value.
  constexpr minifloat operator-() const {
    if constexpr (!Format.is_signed) return minifloat(-static_cast<float>(*this));
    if constexpr (Format.specials == Specials::nan_negative_zero)
      if ((code() & Format.magnitude_mask()) == 0) return *this;
    return from_code(code() ^ Format.sign_mask());
  }

  friend constexpr minifloat operator+(minifloat a, minifloat b) {
    return rounded(wide(a) + wide(b));
  }
  friend constexpr minifloat operator-(minifloat a, minifloat b) {
    return rounded(wide(a) - wide(b));
  }
  friend constexpr minifloat operator*(minifloat a, minifloat b) {
    return rounded(wide(a) * wide(b));
  }
  friend constexpr minifloat operator/(minifloat a, minifloat b) {
    return rounded(divide(wide(a), wide(b)));
  }
  constexpr minifloat& operator+=(minifloat other) { return *this = *this + other; }
  constexpr minifloat& operator-=(minifloat other) { return *this = *this - other; }
  constexpr minifloat& operator*=(minifloat other) { return *this = *this * other; }
  constexpr minifloat& operator/=(minifloat other) { return *this = *this / other; }

  // Compares values as IEEE 754 does: NaN is unordered, -0 equals +0.
  friend constexpr bool operator==(minifloat a, minifloat b) {
    return static_cast<float>(a) == static_cast<float>(b);
  }
  friend constexpr std::partial_ordering operator<=>(minifloat a, minifloat b) {
    return static_cast<float>(a) <=> static_cast<float>(b);
  }

 private:
  // Rounding the float result of an operation on p-bit numbers again to p bits equals rounding once
  // if float's 24 bits are at least 2p + 2 (Figueroa, "When is double rounding innocuous?", 1995),
  // as long as no float result overflows or becomes subnormal: products reach twice the smallest
  // and largest exponents, quotients their difference. double has 53 bits, enough for p = 24, and
  // room for every exponent.
  static constexpr int lowest = Format.min_spacing_exponent();
  static constexpr int highest = Format.max_exponent() + 1;
  static constexpr bool float_is_enough = 2 * (Format.mantissa_bits + 1) + 2 <= 24 &&
                                          2 * lowest >= -126 && 2 * highest <= 127 &&
                                          highest - lowest <= 126;
  using Wide = std::conditional_t<float_is_enough, float, double>;

  static constexpr Wide wide(minifloat value) {
    return static_cast<Wide>(static_cast<float>(value));
  }
  static constexpr minifloat rounded(Wide value) { return minifloat(value); }
  // x / 0 is no constant expression in C++; give it IEEE's result there as well.
  static constexpr Wide divide(Wide a, Wide b) {
    if (std::is_constant_evaluated() && b == 0) {
      if (a == 0 || a != a) return std::bit_cast<float>(0x7FC00000u);
      const bool negative = (a < 0) != unpack(b).negative;
      return std::bit_cast<float>(negative ? 0xFF800000u : 0x7F800000u);
    }
    return a / b;
  }
  static constexpr Storage store(std::uint32_t code) {
    return static_cast<Storage>(code << Format.storage_shift());
  }

  Storage storage_;
};

using tf32 = minifloat<formats::tf32>;
using fp16 = minifloat<formats::fp16>;
using bf16 = minifloat<formats::bf16>;
using fp8_e3m4 = minifloat<formats::fp8_e3m4>;
using fp8_e4m3 = minifloat<formats::fp8_e4m3>;
using fp8_e5m2 = minifloat<formats::fp8_e5m2>;
using fp8_e4m3fn = minifloat<formats::fp8_e4m3fn>;
using fp8_e4m3fnuz = minifloat<formats::fp8_e4m3fnuz>;
using fp8_e5m2fnuz = minifloat<formats::fp8_e5m2fnuz>;
using e8m0 = minifloat<formats::e8m0>;
using fp6_e2m3 = minifloat<formats::fp6_e2m3>;
using fp6_e3m2 = minifloat<formats::fp6_e3m2>;
using fp4_e2m1 = minifloat<formats::fp4_e2m1>;

template <FloatFormat F>
constexpr bool isnan(minifloat<F> value) {
  const float x = value;
  return x != x;
}
template <FloatFormat F>
constexpr bool isinf(minifloat<F> value) {
  return F.has_infinity() && (value.code() & F.magnitude_mask()) == F.infinity_code();
}
template <FloatFormat F>
constexpr bool isfinite(minifloat<F> value) {
  return !isnan(value) && !isinf(value);
}
// Neither zero, subnormal, infinite nor NaN.
template <FloatFormat F>
constexpr bool isnormal(minifloat<F> value) {
  return isfinite(value) &&
         (!F.has_zero() || (value.code() & F.magnitude_mask()) >> F.mantissa_bits != 0);
}
template <FloatFormat F>
constexpr bool signbit(minifloat<F> value) {
  return (value.code() & F.sign_mask()) != 0;
}
template <FloatFormat F>
constexpr minifloat<F> abs(minifloat<F> value) {
  return signbit(value) ? -value : value;
}

namespace detail {

// Rounds to odd: the last bit of the double is set if digits follow it. Rounding this double to any
// format gives the same result as rounding the long double once.
constexpr double to_odd_double(long double value) {
  const auto nearest = static_cast<double>(value);
  const long double rest = value - static_cast<long double>(nearest);
  const auto bits = std::bit_cast<std::uint64_t>(nearest);
  if (rest == 0 || (bits & 1) != 0 || nearest - nearest != 0) return nearest;
  const bool outward = (rest > 0) == (value > 0);
  return std::bit_cast<double>(outward ? bits + 1 : bits - 1);
}

}  // namespace detail

// 1.5_bf16 and similar literals, rounded once from the compiler's long double.
namespace literals {

constexpr tf32 operator""_tf32(long double value) { return tf32(detail::to_odd_double(value)); }
constexpr fp16 operator""_fp16(long double value) { return fp16(detail::to_odd_double(value)); }
constexpr bf16 operator""_bf16(long double value) { return bf16(detail::to_odd_double(value)); }
constexpr fp8_e3m4 operator""_e3m4(long double value) {
  return fp8_e3m4(detail::to_odd_double(value));
}
constexpr fp8_e4m3 operator""_e4m3(long double value) {
  return fp8_e4m3(detail::to_odd_double(value));
}
constexpr fp8_e5m2 operator""_e5m2(long double value) {
  return fp8_e5m2(detail::to_odd_double(value));
}
constexpr fp8_e4m3fn operator""_e4m3fn(long double value) {
  return fp8_e4m3fn(detail::to_odd_double(value));
}

}  // namespace literals

}  // namespace SOMA_NAMESPACE
