#pragma once
// FloatFormat: a binary floating-point format as one constexpr value.
//
// A code is, from the top bit down, [sign] [exponent] [mantissa]. With e the exponent field, m the
// mantissa field and M their width, its value is
//     2^(e - bias) * (1 + m / 2^M)      for e > 0
//     2^(1 - bias) * (m / 2^M)          for e = 0 (zero and subnormals)
// The same record makes types (minifloat<format>), run-time descriptors (CodeSpan) and the vector
// kernels' parameters. Sources of the ready-made records: numeric/formats.hpp. Rules for NaN,
// overflow and zero: docs/numerics.md.

#include <soma/base/config.hpp>

#include <bit>
#include <cstdint>

namespace SOMA_NAMESPACE {

// The codes that are not finite numbers.
enum class Specials : std::uint8_t {
  none,               // every code is a finite number (fp6, fp4)
  ieee,               // top exponent: infinity where the mantissa is 0, NaN elsewhere
  nan_all_ones,       // no infinity; NaN where all bits below the sign are 1 (OCP e4m3fn, e8m0)
  nan_negative_zero,  // no infinity, no negative zero: its code is the one NaN (the "fnuz" formats)
};

// The meaning of codes with an exponent field of 0.
enum class Subnormals : std::uint8_t {
  kept,     // zero and subnormal numbers, as in IEEE 754
  flushed,  // zero; a result that would be subnormal becomes zero of the same sign
  absent,   // an ordinary exponent: the format has neither zero nor subnormals (e8m0)
};

// The result when rounding carries a value beyond the largest finite number. Infinite values count
// as beyond.
enum class Overflow : std::uint8_t {
  special,   // infinity if the format has one, else NaN if it has one, else saturate
  saturate,  // the largest finite number of that sign
  infinity,  // needs a format with infinity
  nan,       // needs a format with NaN
};

struct FloatFormat {
  int exponent_bits = 8;   // 1 to 8
  int mantissa_bits = 23;  // 0 to 23
  int bias = 127;          // any that keeps all values within fp32's, subnormals included
  Specials specials = Specials::ieee;
  bool is_signed = true;
  Subnormals subnormals = Subnormals::kept;
  Overflow overflow = Overflow::special;

  friend constexpr bool operator==(const FloatFormat&, const FloatFormat&) = default;

  // Total width, 2 to 32.
  constexpr int bits() const { return (is_signed ? 1 : 0) + exponent_bits + mantissa_bits; }
  // Bytes of one stored code: 1, 2 or 4. Formats of fewer than 8 bits take a byte each, in its low
  // bits.
  constexpr int bytes() const { return bits() <= 8 ? 1 : bits() <= 16 ? 2 : 4; }

  // The position of the code in its 4-byte container: at the top, so that a tf32 is an fp32 with
  // its low 13 bits zero, as on the accelerator. In 1 and 2 bytes the code lies at the bottom.
  constexpr int storage_shift() const { return bytes() == 4 ? 32 - bits() : 0; }

  constexpr bool has_infinity() const { return specials == Specials::ieee; }
  constexpr bool has_nan() const { return specials != Specials::none; }
  constexpr bool has_zero() const { return subnormals != Subnormals::absent; }

  // Masks of the code's fields.
  constexpr std::uint32_t sign_mask() const {
    return is_signed ? std::uint32_t{1} << (exponent_bits + mantissa_bits) : 0;
  }
  constexpr std::uint32_t magnitude_mask() const {
    return static_cast<std::uint32_t>((std::uint64_t{1} << (exponent_bits + mantissa_bits)) - 1);
  }
  constexpr std::uint32_t mantissa_mask() const { return (std::uint32_t{1} << mantissa_bits) - 1; }

  // Magnitude code (without sign bit) of the largest finite number. Magnitude codes ascend with the
  // values.
  constexpr std::uint32_t max_finite_code() const {
    switch (specials) {
      case Specials::ieee:
        return (magnitude_mask() & ~mantissa_mask()) - 1;
      case Specials::nan_all_ones:
        return magnitude_mask() - 1;
      default:
        return magnitude_mask();
    }
  }
  // Magnitude code of the smallest positive number.
  constexpr std::uint32_t min_positive_code() const {
    return subnormals == Subnormals::kept ? 1 : has_zero() ? std::uint32_t{1} << mantissa_bits : 0;
  }
  // Magnitude code of infinity; only where has_infinity().
  constexpr std::uint32_t infinity_code() const { return magnitude_mask() & ~mantissa_mask(); }
  // The NaN code without a payload, positive if NaN has a sign; only where has_nan().
  constexpr std::uint32_t quiet_nan_code() const {
    if (specials == Specials::ieee)
      return infinity_code() | (std::uint32_t{1} << (mantissa_bits - 1));
    return specials == Specials::nan_all_ones ? magnitude_mask() : sign_mask();
  }

  // Exponents (powers of two) of the smallest normal number and of the spacing of the smallest
  // numbers.
  constexpr int min_normal_exponent() const { return (has_zero() ? 1 : 0) - bias; }
  constexpr int min_spacing_exponent() const { return min_normal_exponent() - mantissa_bits; }
  // Exponent of the largest finite number.
  constexpr int max_exponent() const {
    const std::uint32_t code = max_finite_code();
    const auto field = static_cast<int>(code >> mantissa_bits);
    if (field == 0 &&
        has_zero())  // one exponent bit, which infinity takes: all finite numbers are subnormal
      return min_spacing_exponent() + static_cast<int>(std::bit_width(code)) - 1;
    return field - bias;
  }

  // The overflow policy, with `special` resolved to one of the others.
  constexpr Overflow resolved_overflow() const {
    if (overflow != Overflow::special) return overflow;
    return has_infinity() ? Overflow::infinity : has_nan() ? Overflow::nan : Overflow::saturate;
  }

  // The same format with another overflow policy or another bias: the configurable parts of the
  // accelerator's cFP8.
  constexpr FloatFormat with(Overflow policy) const {
    FloatFormat copy = *this;
    copy.overflow = policy;
    return copy;
  }
  constexpr FloatFormat with_bias(int new_bias) const {
    FloatFormat copy = *this;
    copy.bias = new_bias;
    return copy;
  }

  // The reason why this record describes no format, or nullptr if it describes one. Types refuse an
  // impossible record when compiled, run-time entries throw format.impossible (numeric/formats.hpp,
  // validate).
  constexpr const char* problem() const {
    if (specials > Specials::nan_negative_zero) return "specials that exist";
    if (subnormals > Subnormals::absent) return "a treatment of subnormals that exists";
    if (overflow > Overflow::nan) return "an overflow policy that exists";
    if (exponent_bits < 1 || exponent_bits > 8) return "exponent_bits from 1 to 8";
    if (mantissa_bits < 0 || mantissa_bits > 23) return "mantissa_bits from 0 to 23";
    if (bits() < 2) return "at least 2 bits in total";
    if (specials == Specials::ieee && mantissa_bits == 0)
      return "a mantissa bit, to tell NaN from infinity (Specials::ieee)";
    if (specials == Specials::nan_all_ones && exponent_bits + mantissa_bits < 2)
      return "2 bits beside the sign, so that a finite number is left beside NaN";
    if (specials == Specials::nan_negative_zero && (!is_signed || !has_zero()))
      return "a sign and a zero, whose negative is the NaN (Specials::nan_negative_zero)";
    if (overflow == Overflow::infinity && !has_infinity())
      return "a format with infinity (Overflow::infinity)";
    if (overflow == Overflow::nan && !has_nan()) return "a format with NaN (Overflow::nan)";
    if (bias < -1024 || bias > 1024) return "a bias that keeps all values within fp32's";
    if (subnormals == Subnormals::flushed && max_finite_code() >> mantissa_bits == 0)
      return "a normal number (Subnormals::flushed)";
    if (max_exponent() > 127) return "a bias that keeps the largest value below 2^128";
    if (min_spacing_exponent() < -149)
      return "a bias that keeps the smallest spacing at or above 2^-149";
    return nullptr;
  }
};

}  // namespace SOMA_NAMESPACE
