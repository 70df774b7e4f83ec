// A second implementation of the number formats, by values instead of bits: what codec.hpp is
// compared with.
//
// It knows the fields of a FloatFormat record and nothing else of the library. A code's value comes
// from the formula in float_format.hpp, in double; encoding looks for the two neighbours of a value
// among all values and compares distances. Every double below is exact: a value has at most 24
// significant bits and an exponent from -149 to 128, the midpoint of two neighbours one bit more,
// and their distance is a power of two.
#pragma once

#include <soma/numeric/float_format.hpp>
#include <soma/numeric/rounding.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace soma_test {

using soma::FloatFormat;
using soma::Overflow;
using soma::RoundingMode;
using soma::Specials;
using soma::Subnormals;

inline constexpr RoundingMode deterministic_modes[] = {
    RoundingMode::nearest_even, RoundingMode::nearest_away, RoundingMode::toward_zero,
    RoundingMode::up, RoundingMode::down};

class ReferenceCodec {
 public:
  explicit ReferenceCodec(const FloatFormat& format) : format_(format) {
    const std::uint64_t all = std::uint64_t{1} << (format.exponent_bits + format.mantissa_bits);
    switch (format.specials) {
      case Specials::none:
      case Specials::nan_negative_zero:
        finite_count_ = all;
        break;
      case Specials::nan_all_ones:
        finite_count_ = all - 1;
        break;
      case Specials::ieee:
        finite_count_ = all - per_exponent();
        break;
    }
    if (finite_count_ > 0x8000) return;  // wider formats evaluate the formula when asked
    for (std::uint64_t code = 0; code <= finite_count_; ++code) table_.push_back(formula(code));
  }

  const FloatFormat& format() const { return format_; }

  // How many magnitude codes are finite numbers: 0 to finite_count() - 1, in ascending order of
  // their values.
  std::uint64_t finite_count() const { return finite_count_; }
  std::uint32_t sign_bit() const {
    return format_.is_signed ? std::uint32_t{1} << (format_.exponent_bits + format_.mantissa_bits)
                             : 0;
  }
  // How many codes there are, signs included.
  std::uint64_t code_count() const {
    return std::uint64_t{1} << (format_.exponent_bits + format_.mantissa_bits +
                                (format_.is_signed ? 1 : 0));
  }

  // The magnitude that a code stands for. finite_count() gives the number that would come next if
  // there were one more: what overflow decisions are measured against.
  double magnitude(std::uint64_t code) const {
    return table_.empty() ? formula(code) : table_[code];
  }
  // The same as a code is read: flushed subnormals are zero.
  double read_magnitude(std::uint64_t code) const {
    return format_.subnormals == Subnormals::flushed && code < per_exponent() ? 0 : magnitude(code);
  }

  bool is_nan(std::uint32_t code) const {
    const std::uint32_t low = code & ~sign_bit();
    if (format_.specials == Specials::nan_negative_zero) return code == sign_bit();
    if (format_.specials == Specials::ieee)
      return low > finite_count_;  // finite_count_ itself is infinity
    return low >= finite_count_;
  }
  bool is_infinity(std::uint32_t code) const {
    return format_.specials == Specials::ieee && (code & ~sign_bit()) == finite_count_;
  }

  // The fp32 bits that a code decodes to.
  std::uint32_t decode_bits(std::uint32_t code) const {
    const std::uint32_t sign = (code & sign_bit()) != 0 ? 0x80000000u : 0;
    if (is_infinity(code)) return sign | 0x7F800000u;
    if (is_nan(code)) {
      if (format_.specials == Specials::nan_negative_zero) return 0x7FC00000u;
      if (format_.specials == Specials::nan_all_ones) return sign | 0x7FC00000u;
      const auto payload = static_cast<std::uint32_t>((code & ~sign_bit()) % per_exponent());
      return sign | 0x7F800000u | payload << (23 - format_.mantissa_bits);
    }
    const double value = read_magnitude(code & ~sign_bit());
    if (value == 0 && format_.specials == Specials::nan_negative_zero) return 0;
    return sign | std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }

  // One past the largest `word` of `random_bits` bits that leaves the magnitude at its lower
  // neighbour is 2^random_bits less this count: how many of the words round up. A whole number, the
  // discarded fraction truncated.
  std::uint64_t words_up(double value, int random_bits) const {
    const double x = std::fabs(value);
    if (x >= magnitude(finite_count_)) return std::uint64_t{1} << random_bits;
    if (x < magnitude(0)) return 0;
    const std::uint64_t lower = neighbour_below(x);
    const double fraction = (x - magnitude(lower)) / (magnitude(lower + 1) - magnitude(lower));
    return static_cast<std::uint64_t>(std::ldexp(fraction, random_bits));
  }

  // `word`: the random bits of stochastic rounding, random_bits of them, as an integer.
  std::uint32_t encode(double value, RoundingMode mode, std::uint64_t word = 0,
                       int random_bits = 32) const {
    const bool negative = std::signbit(value);
    const double x = std::fabs(value);
    if (std::isnan(value)) return nan_code(negative, std::bit_cast<std::uint64_t>(value) << 12);
    if (negative && x > 0 && !format_.is_signed)
      return format_.specials == Specials::none ? 0 : nan_code(false, 0);
    if (std::isinf(value)) return overflow_code(negative);
    if (x < magnitude(0))
      return signed_code(negative, 0);  // only where the smallest number is not 0

    const std::uint64_t lower = x >= magnitude(finite_count_) ? finite_count_ : neighbour_below(x);
    std::uint64_t code = lower;
    if (lower < finite_count_ && x > magnitude(lower) &&
        goes_up(x, lower, negative, mode, word, random_bits))
      ++code;
    if (code == finite_count_) {
      const bool toward_zero = mode == RoundingMode::toward_zero ||
                               (mode == RoundingMode::up && negative) ||
                               (mode == RoundingMode::down && !negative);
      if (!toward_zero) return overflow_code(negative);
      --code;
    }
    if (format_.subnormals == Subnormals::flushed && code < per_exponent()) code = 0;
    return signed_code(negative, code);
  }

  // An fp32 value given by its bits, so that no conversion touches a NaN.
  std::uint32_t encode_bits(std::uint32_t bits, RoundingMode mode, std::uint64_t word = 0,
                            int random_bits = 32) const {
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
      return nan_code(bits >> 31 != 0, std::uint64_t{bits & 0x7FFFFFu} << 41);
    return encode(std::bit_cast<float>(bits), mode, word, random_bits);
  }

 private:
  std::uint64_t per_exponent() const { return std::uint64_t{1} << format_.mantissa_bits; }

  double formula(std::uint64_t code) const {
    const auto field = static_cast<int>(code / per_exponent());
    const double fraction =
        std::ldexp(static_cast<double>(code % per_exponent()), -format_.mantissa_bits);
    if (field == 0 && format_.subnormals != Subnormals::absent)
      return std::ldexp(fraction, 1 - format_.bias);
    return std::ldexp(1 + fraction, field - format_.bias);
  }

  // The last finite code whose magnitude is at most x; magnitude(0) <= x.
  std::uint64_t neighbour_below(double x) const {
    if (!table_.empty()) {
      const auto end = table_.end() - 1;  // without the virtual number
      return static_cast<std::uint64_t>(std::upper_bound(table_.begin(), end, x) - table_.begin()) -
             1;
    }
    std::uint64_t low = 0, high = finite_count_;
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (magnitude(middle) <= x ? low : high) = middle;
    }
    return low;
  }

  bool goes_up(double x, std::uint64_t lower, bool negative, RoundingMode mode, std::uint64_t word,
               int random_bits) const {
    const double middle = (magnitude(lower) + magnitude(lower + 1)) / 2;
    switch (mode) {
      case RoundingMode::nearest_away:
        return x >= middle;
      case RoundingMode::toward_zero:
        return false;
      case RoundingMode::up:
        return !negative;
      case RoundingMode::down:
        return negative;
      case RoundingMode::stochastic:
        return word + words_up(x, random_bits) >= std::uint64_t{1} << random_bits;
      case RoundingMode::nearest_even:
        break;
    }
    if (x != middle) return x > middle;
    // IEEE 754-2019 section 4.3.1: to the one with an even last digit; where both digits are odd,
    // which one-digit significands are unless zero is meant, to the larger magnitude.
    if (format_.mantissa_bits == 0) return magnitude(lower) != 0;
    return lower % 2 != 0;
  }

  std::uint32_t signed_code(bool negative, std::uint64_t code) const {
    if (code == 0 && format_.specials == Specials::nan_negative_zero) return 0;
    return static_cast<std::uint32_t>(code) | (negative ? sign_bit() : 0);
  }

  std::uint32_t overflow_code(bool negative) const {
    Overflow policy = format_.overflow;
    if (policy == Overflow::special)
      policy = format_.specials == Specials::ieee   ? Overflow::infinity
               : format_.specials == Specials::none ? Overflow::saturate
                                                    : Overflow::nan;
    if (policy == Overflow::nan) return nan_code(negative, 0);
    return signed_code(negative, policy == Overflow::infinity ? finite_count_ : finite_count_ - 1);
  }

  // `payload` at the top of 64 bits.
  std::uint32_t nan_code(bool negative, std::uint64_t payload) const {
    switch (format_.specials) {
      case Specials::none:
        return static_cast<std::uint32_t>(finite_count_ - 1);
      case Specials::nan_negative_zero:
        return sign_bit();
      case Specials::nan_all_ones:
        return signed_code(negative, finite_count_);
      case Specials::ieee:
        break;
    }
    payload >>= 64 - format_.mantissa_bits;  // an ieee format has a mantissa bit
    if (payload == 0) payload = per_exponent() / 2;
    return signed_code(negative, finite_count_ + payload);
  }

  FloatFormat format_;
  std::uint64_t finite_count_ = 0;
  std::vector<double>
      table_;  // magnitudes of all finite codes and the virtual next; empty for wide formats
};

}  // namespace soma_test
