#pragma once
// The functions of fused.hpp.

#include <soma/numeric/fused.hpp>

#include <soma/base/config.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::detail {

// The product is exact in double (48 bits, exponents from -298 to 255). The sum is rounded to odd:
// where it is not exact, its last bit is 1, so that rounding it to float, which drops at least two
// bits more, sees on which side of a tie the exact sum lies (Boldo and Melquiond, "Emulation of FMA
// and correctly rounded sums: proved algorithms using rounding to odd", 2008).
SOMA_INLINE float exact_fused(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = static_cast<double>(c);
  const double sum = product + addend;
  // The exact loss of the sum. NaN where the sum is infinite or NaN: then nothing is done.
  const double part = sum - product;
  const double lost = (product - (sum - part)) + (addend - part);
  auto bits = std::bit_cast<std::int64_t>(sum);
  if ((lost > 0 || lost < 0) && (bits & 1) == 0) bits += (lost > 0) == (sum > 0) ? 1 : -1;
  return static_cast<float>(std::bit_cast<double>(bits));
}

// A finite number as significand * 2^exponent; the highest bit of the significand is bit 63, but
// for zero.
struct Significand {
  std::uint64_t bits;
  int exponent;
};

inline Significand significand_of(double value) {
  const auto all = std::bit_cast<std::uint64_t>(value);
  const auto exponent = static_cast<int>(all >> 52 & 0x7FF);
  std::uint64_t bits = all & ((std::uint64_t{1} << 52) - 1);
  if (exponent != 0) bits |= std::uint64_t{1} << 52;
  if (bits == 0) return {0, 0};
  const int zeros = std::countl_zero(bits);
  return {bits << zeros, (exponent == 0 ? 1 : exponent) - 1075 - zeros};
}

// 128 bits, the higher 64 first.
struct WideBits {
  std::uint64_t high = 0, low = 0;
};

inline WideBits wide_product(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t half = 0xFFFFFFFFu;
  const std::uint64_t low = (a & half) * (b & half), first = (a >> 32) * (b & half),
                      second = (a & half) * (b >> 32);
  const std::uint64_t middle = (low >> 32) + (first & half) + (second & half);
  return {(a >> 32) * (b >> 32) + (first >> 32) + (second >> 32) + (middle >> 32),
          middle << 32 | (low & half)};
}

// Moves bits to the right; bit 0 becomes 1 if any 1 was lost.
inline WideBits shifted_right(WideBits x, int count) {
  if (count == 0) return x;
  if (count >= 128) return {0, (x.high | x.low) != 0 ? std::uint64_t{1} : 0};
  std::uint64_t lost = 0;
  if (count >= 64) {
    lost = x.low;
    x = {0, x.high};
    count -= 64;
  }
  if (count != 0) {
    lost |= x.low << (64 - count);
    x = {x.high >> count, x.high << (64 - count) | x.low >> count};
  }
  return {x.high, x.low | (lost != 0 ? 1 : 0)};
}

// significand * 2^exponent, rounded to double; the significand is not zero, and bit 0 stands for
// all lower bits.
inline double rounded_wide(WideBits x, int exponent, bool negative) {
  const int zeros = x.high != 0 ? std::countl_zero(x.high) : 64 + std::countl_zero(x.low);
  if (zeros >= 64)
    x = {x.low << (zeros - 64), 0};
  else if (zeros != 0)
    x = {x.high << zeros | x.low >> (64 - zeros), x.low << zeros};
  exponent -= zeros;
  // The highest bit stands for 2^(exponent + 127). A double keeps 53 bits, or fewer below 2^-1022.
  const int top = exponent + 127;
  const int kept = top >= -1022 ? 53 : 53 - (-1022 - top);
  const std::uint64_t sign = negative ? std::uint64_t{1} << 63 : 0;
  if (kept < 0) return std::bit_cast<double>(sign);  // below half of the smallest number
  const WideBits whole = shifted_right(x, 128 - 2 - kept);  // two bits behind the last kept one
  std::uint64_t result = whole.low >> 2;
  const auto behind = static_cast<unsigned>(whole.low & 3);
  // Numbers of few bits lose bits behind those two as well: shifted_right() keeps them in bit 0.
  if (behind > 2 || (behind == 2 && (result & 1) != 0)) ++result;
  // A carry out of the significand adds to the exponent, up to infinity.
  if (top >= -1022) {
    if (top > 1023) return std::bit_cast<double>(sign | std::uint64_t{0x7FF} << 52);
    result += static_cast<std::uint64_t>(top + 1022) << 52;
  }
  return std::bit_cast<double>(sign | result);
}

// The product has 128 bits. It and the addend are brought to one exponent, the larger, with three
// bits to spare above; the smaller number's bits below the 128 collapse into one. That is exact
// enough: they are lost only where the numbers are so far apart that no leading bits cancel.
SOMA_INLINE double exact_fused(double a, double b, double c) {
  if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) {
    // The product of finite numbers is finite: where it overflows, an infinite or NaN addend wins.
    const bool finite = std::isfinite(a) && std::isfinite(b);
    return finite ? c : a * b + c;
  }
  if (a == 0 || b == 0) return a * b + c;
  const bool negative = std::signbit(a) != std::signbit(b);
  const Significand x = significand_of(a), y = significand_of(b), z = significand_of(c);
  WideBits product = wide_product(x.bits, y.bits);
  int exponent = x.exponent + y.exponent;
  if (z.bits == 0) return rounded_wide(product, exponent, negative);
  WideBits addend{z.bits, 0};
  int addend_exponent = z.exponent - 64;
  // One bit to spare for the sum. The product's lowest 22 bits are zero, and the addend's 64.
  product = shifted_right(product, 1);
  addend = shifted_right(addend, 1);
  ++exponent;
  ++addend_exponent;
  if (exponent >= addend_exponent) {
    addend = shifted_right(addend, exponent - addend_exponent);
  } else {
    product = shifted_right(product, addend_exponent - exponent);
    exponent = addend_exponent;
  }
  const bool addend_negative = std::signbit(c);
  if (negative == addend_negative) {
    const std::uint64_t low = product.low + addend.low;
    const std::uint64_t high = product.high + addend.high + (low < product.low ? 1 : 0);
    return rounded_wide({high, low}, exponent, negative);
  }
  const bool swap = addend.high > product.high ||
                    (addend.high == product.high && addend.low > product.low);
  const WideBits larger = swap ? addend : product, smaller = swap ? product : addend;
  const WideBits difference{larger.high - smaller.high - (larger.low < smaller.low ? 1 : 0),
                            larger.low - smaller.low};
  if (difference.high == 0 && difference.low == 0) return 0;
  return rounded_wide(difference, exponent, swap ? addend_negative : negative);
}

}  // namespace SOMA_NAMESPACE::detail
