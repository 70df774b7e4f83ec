#pragma once
// Encoding and decoding of one value, for any format and rounding: constexpr integer arithmetic, so
// that neither the compiler's floating-point flags nor the machine's modes can change a bit. The
// vector kernels (simd/) compute the same function many lanes at a time; tests compare the two.
//
// Rules (docs/numerics.md has them with examples):
//   NaN       keeps its sign and the top mantissa_bits of its payload where the target is ieee; if
//             those are all zero, the quiet bit is set. Elsewhere it becomes the format's NaN, with
//             its sign where NaN has one. A format without NaN takes its largest positive number.
//   overflow  a magnitude that rounds beyond the largest finite number, and infinity, follow
//             FloatFormat::overflow. Finite values rounded toward zero (also up or down, on the
//             side where that is toward zero) stop at the largest, as in IEEE 754 section 7.4.
//   zero      keeps its sign where the format has signed zeros; without a zero (e8m0) it becomes
//             the smallest number.
//   negative  values below zero become NaN in a format without sign (its smallest number where it
//             has no NaN).

#include <soma/numeric/float_format.hpp>
#include <soma/numeric/rounding.hpp>

#include <bit>
#include <cstdint>

namespace SOMA_NAMESPACE {

// A finite nonzero magnitude as an integer times a power of two: significand * 2^exponent, where
// bit 52 is the top bit of the significand.
struct ExactMagnitude {
  std::uint64_t significand;
  int exponent;
};

// One fp32 or fp64 value taken apart.
struct Unpacked {
  enum class Kind : std::uint8_t { zero, finite, infinity, nan } kind;
  bool negative;
  ExactMagnitude magnitude;   // where finite
  std::uint64_t nan_payload;  // where NaN: the mantissa field, its top bit at bit 51
};

constexpr Unpacked unpack(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const bool negative = (bits >> 63) != 0;
  const int field = static_cast<int>((bits >> 52) & 0x7FF);
  const std::uint64_t fraction = bits & 0xFFFFFFFFFFFFFu;
  if (field == 0x7FF)
    return {fraction != 0 ? Unpacked::Kind::nan : Unpacked::Kind::infinity, negative, {}, fraction};
  if (field == 0 && fraction == 0) return {Unpacked::Kind::zero, negative, {}, 0};
  if (field == 0) {  // subnormal: bring its top bit up to bit 52
    const int shift = std::countl_zero(fraction) - 11;
    return {Unpacked::Kind::finite, negative, {fraction << shift, -1074 - shift}, 0};
  }
  return {Unpacked::Kind::finite, negative, {fraction | (std::uint64_t{1} << 52), field - 1075}, 0};
}

// Reads the bits, because a conversion to double would make a signalling NaN quiet.
constexpr Unpacked unpack(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool negative = (bits >> 31) != 0;
  const int field = static_cast<int>((bits >> 23) & 0xFF);
  const std::uint64_t fraction = std::uint64_t{bits & 0x7FFFFFu} << 29;
  if (field == 0xFF)
    return {fraction != 0 ? Unpacked::Kind::nan : Unpacked::Kind::infinity, negative, {}, fraction};
  if (field == 0 && fraction == 0) return {Unpacked::Kind::zero, negative, {}, 0};
  if (field == 0) {
    const int shift = std::countl_zero(fraction) - 11;
    return {Unpacked::Kind::finite, negative, {fraction << shift, -178 - shift}, 0};
  }
  return {Unpacked::Kind::finite, negative, {fraction | (std::uint64_t{1} << 52), field - 179}, 0};
}

namespace detail {

// 2^exponent as fp32, for -149 to 127.
constexpr float two_to(int exponent) {
  return exponent < -126 ? std::bit_cast<float>(std::uint32_t{1} << (exponent + 149))
                         : std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// How much to add to the kept part: 0 or 1. `rest` is the discarded field, `field_bits` wide (1 to
// 63). `random` holds random bits at its top; the lower ones are 0.
constexpr std::uint64_t round_increment(RoundingMode mode, bool negative, std::uint64_t kept,
                                        std::uint64_t rest, int field_bits, std::uint32_t random) {
  const std::uint64_t half = std::uint64_t{1} << (field_bits - 1);
  switch (mode) {
    case RoundingMode::nearest_even:
      return rest > half || (rest == half && (kept & 1) != 0);
    case RoundingMode::nearest_away:
      return rest >= half;
    case RoundingMode::toward_zero:
      return 0;
    case RoundingMode::up:
      return rest != 0 && !negative;
    case RoundingMode::down:
      return rest != 0 && negative;
    case RoundingMode::stochastic: {
      const std::uint64_t
          top =  // the field's top 32 bits, or the whole field aligned to the top of 32
          field_bits >= 32 ? rest >> (field_bits - 32) : rest << (32 - field_bits);
      return (top + random) >> 32;
    }
  }
  return 0;
}

// True if a finite overflow in that direction goes to the largest finite number whatever the
// policy.
constexpr bool overflow_stops_at_max(RoundingMode mode, bool negative) {
  return mode == RoundingMode::toward_zero || (mode == RoundingMode::up && negative) ||
         (mode == RoundingMode::down && !negative);
}

constexpr std::uint32_t overflow_code(const FloatFormat& format, bool negative) {
  const std::uint32_t sign = negative ? format.sign_mask() : 0;
  switch (format.resolved_overflow()) {
    case Overflow::infinity:
      return format.infinity_code() | sign;
    case Overflow::nan:
      return format.quiet_nan_code() | sign;
    default:
      return format.max_finite_code() | sign;
  }
}

constexpr std::uint32_t nan_code(const FloatFormat& format, const Unpacked& value) {
  if (!format.has_nan()) return format.max_finite_code();
  const std::uint32_t sign = value.negative ? format.sign_mask() : 0;
  if (format.specials != Specials::ieee) return format.quiet_nan_code() | sign;
  const auto payload = static_cast<std::uint32_t>(value.nan_payload >> (52 - format.mantissa_bits));
  return (payload != 0 ? format.infinity_code() | payload : format.quiet_nan_code()) | sign;
}

}  // namespace detail

// The code of an unpacked value. `random`: for stochastic rounding, a random word whose top
// random_bits(rounding, format) bits are used.
constexpr std::uint32_t encode(const FloatFormat& format, const Unpacked& value,
                               const Rounding& rounding, std::uint32_t random = 0) {
  using Kind = Unpacked::Kind;
  if (value.kind == Kind::nan) return detail::nan_code(format, value);
  if (value.negative && !format.is_signed && value.kind != Kind::zero)
    return format.has_nan() ? format.quiet_nan_code() : 0;

  const bool signed_zero = format.specials != Specials::nan_negative_zero;
  const std::uint32_t sign = value.negative ? format.sign_mask() : 0;
  if (value.kind == Kind::zero) return signed_zero ? sign : 0;
  if (value.kind == Kind::infinity) return detail::overflow_code(format, value.negative);

  // In a format without zero, exponent field 0 is an ordinary exponent: codes are counted as if one
  // more field lay below.
  const int below = format.has_zero() ? 0 : 1;
  const int field = value.magnitude.exponent + 52 + format.bias + below;
  const int deficit = field < 1 ? 1 - field : 0;  // how far below the smallest normal number
  const int wide_shift = 52 - format.mantissa_bits + deficit;
  const int shift =
      wide_shift < 63 ? wide_shift : 63;  // beyond 63 the value is below any tie or random word
  const std::uint64_t significand =
      value.magnitude.significand >> (wide_shift - shift < 63 ? wide_shift - shift : 63);

  const std::uint64_t kept = significand >> shift;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  std::uint32_t usable = 0;
  if (rounding.mode == RoundingMode::stochastic) {
    const int bits = random_bits(rounding, format);
    if (bits > 32)
      fail(error_id::random_bits, "encode", "rounding.random_bits", std::to_string(bits),
           "0 (automatic) to 32");
    usable = ~std::uint32_t{0} << (32 - bits);
  }
  std::uint64_t code = kept;
  if (deficit == 0) code += static_cast<std::uint64_t>(field - 1) << format.mantissa_bits;
  code += rest != 0 || wide_shift > shift
              ? detail::round_increment(rounding.mode, value.negative, kept, rest != 0 ? rest : 1,
                                        shift, random & usable)
              : 0;

  const std::uint64_t lowest = std::uint64_t{1} << format.mantissa_bits;
  if (!format.has_zero()) code = code < lowest ? 0 : code - lowest;
  if (format.subnormals == Subnormals::flushed && code < lowest) code = 0;
  if (code > format.max_finite_code()) {
    if (detail::overflow_stops_at_max(rounding.mode, value.negative))
      return format.max_finite_code() | sign;
    return detail::overflow_code(format, value.negative);
  }
  if (code == 0 && !signed_zero) return 0;
  return static_cast<std::uint32_t>(code) | sign;
}

constexpr std::uint32_t encode(const FloatFormat& format, float value,
                               const Rounding& rounding = {}, std::uint32_t random = 0) {
  return encode(format, unpack(value), rounding, random);
}
// The code of a double, rounded once.
constexpr std::uint32_t encode(const FloatFormat& format, double value,
                               const Rounding& rounding = {}, std::uint32_t random = 0) {
  return encode(format, unpack(value), rounding, random);
}

// The exact value of a code. NaN payloads survive; bits above the format's width are ignored.
constexpr float decode(const FloatFormat& format, std::uint32_t code) {
  const std::uint32_t magnitude = code & format.magnitude_mask();
  const std::uint32_t sign = (code & format.sign_mask()) != 0 ? 0x80000000u : 0;
  if (format.specials == Specials::nan_negative_zero && sign != 0 && magnitude == 0)
    return std::bit_cast<float>(0x7FC00000u);
  if (magnitude > format.max_finite_code()) {
    const std::uint32_t payload = format.specials == Specials::ieee
                                      ? (magnitude & format.mantissa_mask())
                                            << (23 - format.mantissa_bits)
                                      : 0x400000u;
    return std::bit_cast<float>(sign | 0x7F800000u | payload);
  }

  const int field = static_cast<int>(magnitude >> format.mantissa_bits);
  const bool subnormal = field == 0 && format.has_zero();
  std::uint32_t significand = magnitude & format.mantissa_mask();
  if (!subnormal) significand |= std::uint32_t{1} << format.mantissa_bits;
  if (significand == 0 || (subnormal && format.subnormals == Subnormals::flushed))
    return format.specials == Specials::nan_negative_zero ? 0.0f : std::bit_cast<float>(sign);

  // significand * 2^unit, put into fp32's fields; the top bit of the significand stands for 2^top.
  const int unit = (subnormal ? 1 : field) - format.bias - format.mantissa_bits;
  const auto width = static_cast<int>(std::bit_width(significand));
  const int top = unit + width - 1;
  if (top < -126) return std::bit_cast<float>(sign | (significand << (unit + 149)));
  const std::uint32_t fraction = (significand << (24 - width)) & 0x7FFFFFu;
  return std::bit_cast<float>(sign | (static_cast<std::uint32_t>(top + 127) << 23) | fraction);
}

}  // namespace SOMA_NAMESPACE
