#pragma once
// The functions of portable_math.hpp.

#include <soma/numeric/portable_math.hpp>

#include <soma/base/config.hpp>
#include <soma/numeric/fused.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace SOMA_NAMESPACE {

SOMA_INLINE double rounded(double value) {
#if SOMA_GNU_ASSEMBLY && defined(__x86_64__)
  __asm__("" : "+x"(value));
  return value;
#elif SOMA_GNU_ASSEMBLY && defined(__aarch64__)
  __asm__("" : "+w"(value));
  return value;
#else
  const volatile double stored = value;
  return stored;
#endif
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE DoublePair normal_pair(double high, double low) {
  const double sum = high + low;
  return {sum, low - (sum - high)};
}

SOMA_INLINE DoublePair multiply(DoublePair a, DoublePair b) {
  const double high = rounded(a.high * b.high);
  if (!std::isfinite(high)) return {high, 0};
  const double low = fused_multiply_add(a.high, b.high, -high);
  return normal_pair(high,
                     fused_multiply_add(a.high, b.low, fused_multiply_add(a.low, b.high, low)));
}

SOMA_INLINE double exp_of(DoublePair x) {
  if (x.high != x.high) return x.high;
  if (x.high > 710) return std::numeric_limits<double>::infinity();
  if (x.high < -746) return 0;
  // x = k ln 2 + r. The first difference is exact: both operands are multiples of 2^-54, and it is
  // below 1/2.
  const double k = fused_multiply_add(x.high, 0x1.71547652b82fep+0, to_integer) - to_integer;
  const double first = fused_multiply_add(-k, ln_2[0], x.high);
  const DoublePair r = normal_pair(first, fused_multiply_add(-k, ln_2[1], x.low));
  // 1 + r.high, and the rounding error of this sum.
  const double sum = 1 + r.high, lost = (1 - sum) + r.high;
  const double square = rounded(r.high * r.high);
  const double rest = fused_multiply_add(square, polynomial(exp_series, r.high),
                                         fused_multiply_add(r.high, r.low, r.low));
  const double value = sum + (lost + rest);
  // 2^k by halves: one of 2^-1075 or 2^1024 does not exist. Only the second product can round.
  const auto exponent = static_cast<int>(k), half = exponent / 2;
  const auto power_of_two = [](int n) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
  };
  return rounded(rounded(value * power_of_two(half)) * power_of_two(exponent - half));
}

SOMA_INLINE DoublePair log_of(double x) {
  int k = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;  // exact
    k = -54;
  }
  // x = 2^k m with m from sqrt(1/2) to sqrt(2). Subtracting the bits of sqrt(1/2) carries into the
  // exponent where the significand is at least sqrt(2).
  const auto bits = std::bit_cast<std::int64_t>(x);
  const std::int64_t carried = (bits - 0x3FE6A09E667F3BCD) >> 52;
  const auto m = std::bit_cast<double>(bits - carried * (std::int64_t{1} << 52));
  k += static_cast<int>(carried);

  // s = (m - 1) / (m + 1): the numerator is exact, the denominator has a low part.
  const double numerator = m - 1, denominator = m + 1, low = m - (denominator - 1);
  const double s = numerator / denominator;
  const double s_low =
      fused_multiply_add(-s, low, fused_multiply_add(-s, denominator, numerator)) / denominator;
  // s^3 times the series, whose first term needs its low part too.
  const DoublePair square = multiply({s, s_low}, {s, s_low});
  const double tail = rounded(square.high * polynomial(atanh_series, square.high));
  const DoublePair series = normal_pair(0x1.5555555555555p-1, tail + 0x1.5555555555555p-55);
  const DoublePair third = multiply(multiply({s, s_low}, square), series);
  const DoublePair ln_m = normal_pair(2 * s, third.high);

  const double high = rounded(k * ln_2[0]);
  const double high_low = fused_multiply_add(
      static_cast<double>(k), ln_2[1], fused_multiply_add(static_cast<double>(k), ln_2[0], -high));
  const DoublePair sum = normal_pair(high, ln_m.high);
  const double rest = (sum.low + ln_m.low) + (high_low + (2 * s_low + third.low));
  return normal_pair(sum.high, rest);
}

SOMA_INLINE double sine_of(double r, double low) {
  static constexpr std::array<double, 8> series{
      -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
      -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
  const double z = rounded(r * r);
  const double cube = rounded(z * r);
  return r +
         fused_multiply_add(cube, polynomial(series, z), fused_multiply_add(-0.5 * z, low, low));
}

SOMA_INLINE double cosine_of(double r, double low) {
  static constexpr std::array<double, 7> series{
      1.0 / 24,        -1.0 / 720,         1.0 / 40320,         -1.0 / 3628800,
      1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
  const double z = rounded(r * r), z_low = fused_multiply_add(r, r, -z);
  const double sum = fused_multiply_add(-0.5, z, 1.0), lost = fused_multiply_add(-0.5, z, 1 - sum);
  const double correction = fused_multiply_add(r, low, 0.5 * z_low);
  return sum + (lost + fused_multiply_add(rounded(z * z), polynomial(series, z), -correction));
}

SOMA_INLINE double sine_of_turned(double x, int quarters) {
  if (!(std::fabs(x) <= 0x1p20)) return std::numeric_limits<double>::quiet_NaN();
  const double k = fused_multiply_add(x, 0x1.45f306dc9c883p-1, to_integer) - to_integer;
  // x - k pi / 2. The first difference is exact: both operands are multiples of 2^-53, and it is
  // below 1 (where k is 0 it is x).
  const double first = fused_multiply_add(-k, half_pi[0], x);
  const double product = rounded(k * half_pi[1]);
  const double product_low =
      fused_multiply_add(k, half_pi[2], fused_multiply_add(k, half_pi[1], -product));
  const double r = first - product;
  const double low = ((first - r) - product) - product_low;
  const auto turn = (static_cast<std::int64_t>(k) + quarters) & 3;
  const double value = (turn & 1) != 0 ? cosine_of(r, low) : sine_of(r, low);
  return rounded((turn & 2) != 0 ? -value : value);
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE double portable_power(double base, std::uint64_t exponent) {
  detail::DoublePair result{1, 0}, square{base, 0};
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = detail::multiply(result, square);
    if (exponent > 1) square = detail::multiply(square, square);
  }
  return rounded(result.high);
}

SOMA_INLINE double portable_cosine(double x) { return detail::sine_of_turned(x, 1); }

SOMA_INLINE double portable_sine(double x) { return x == 0 ? x : detail::sine_of_turned(x, 0); }

SOMA_INLINE double portable_exp(double x) { return detail::exp_of({x, 0}); }

SOMA_INLINE double portable_log(double x) {
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(x)) return x;
  return rounded(detail::log_of(x).high);
}

SOMA_INLINE double portable_pow(double base, double exponent) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (exponent == 0 || base == 1) return 1;
  if (base != base || exponent != exponent) return base + exponent;
  if (base < 0) return std::numeric_limits<double>::quiet_NaN();
  if (base == 0) return exponent > 0 ? 0 : infinity;
  if (base == infinity) return exponent > 0 ? infinity : 0;
  const detail::DoublePair logarithm = detail::log_of(base);
  const double high = rounded(logarithm.high * exponent);
  if (!(std::fabs(high) < 1000)) return high > 0 ? infinity : 0;
  const double low = fused_multiply_add(logarithm.high, exponent, -high);
  return detail::exp_of({high, fused_multiply_add(logarithm.low, exponent, low)});
}

}  // namespace SOMA_NAMESPACE
