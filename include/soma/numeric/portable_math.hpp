#pragma once
// A few functions of double with the same bits on every machine, from every compiler, with any
// -ffp-contract: learning-rate schedules, bias corrections and initialisers must not depend on the
// host's libm. Not for inner loops.
//
// Two rules ensure it. A product that is fused with a sum is written as std::fma. A product that
// must not be fused passes through rounded(), which a compiler cannot look into; results pass
// through it too, because a caller may add to them. Error bounds are in units in the last place of
// the result; the tests measure against long double.

#include <soma/base/config.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace soma {

// The same value, rounded to double, as an operand that cannot be fused with what comes next.
inline double rounded(double value) {
#if defined(__GNUC__) && defined(__x86_64__)
  __asm__("" : "+x"(value));
  return value;
#elif defined(__GNUC__) && defined(__aarch64__)
  __asm__("" : "+w"(value));
  return value;
#else
  const volatile double stored = value;
  return stored;
#endif
}

namespace detail {

// The unevaluated sum of a double and its error, which is below half a unit in its last place.
struct DoublePair {
  double high, low;
};

// high + low in normal form, for |high| >= |low|.
inline DoublePair normal_pair(double high, double low) {
  const double sum = high + low;
  return {sum, low - (sum - high)};
}

// a * b. Relative error below 2^-102 while nothing underflows.
inline DoublePair multiply(DoublePair a, DoublePair b) {
  const double high = rounded(a.high * b.high);
  if (!std::isfinite(high)) return {high, 0};
  const double low = std::fma(a.high, b.high, -high);
  return normal_pair(high, std::fma(a.high, b.low, std::fma(a.low, b.high, low)));
}

// c[0] + x c[1] + x^2 c[2] ...
template <std::size_t count>
double polynomial(const std::array<double, count>& c, double x) {
  double sum = c[count - 1];
  for (std::size_t i = count - 1; i-- > 0;) sum = std::fma(sum, x, c[i]);
  return sum;
}

// Adding and subtracting this number rounds to the nearest integer, for magnitudes below 2^51: the
// sum's last bit stands for 1.
inline constexpr double to_integer = 0x1.8p52;

// Leading doubles of ln 2 and of pi / 2; each is the rounded remainder after those before.
inline constexpr std::array<double, 2> ln_2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr std::array<double, 3> half_pi{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                                               -0x1.f1976b7ed8fbcp-110};

// 1 / n! from n = 2: e^r = 1 + r + r^2 times the series. Cut after r^14 / 14!: below 2^-63 for
// |r| <= ln(2) / 2.
inline constexpr std::array<double, 13> exp_series{
    1.0 / 2,         1.0 / 6,          1.0 / 24,         1.0 / 120,     1.0 / 720,
    1.0 / 5040,      1.0 / 40320,      1.0 / 362880,     1.0 / 3628800, 1.0 / 39916800,
    1.0 / 479001600, 1.0 / 6227020800, 1.0 / 87178291200};

// e^(x.high + x.low).
inline double exp_of(DoublePair x) {
  if (x.high != x.high) return x.high;
  if (x.high > 710) return std::numeric_limits<double>::infinity();
  if (x.high < -746) return 0;
  // x = k ln 2 + r. The first difference is exact: both operands are multiples of 2^-54, and it is
  // below 1/2.
  const double k = std::fma(x.high, 0x1.71547652b82fep+0, to_integer) - to_integer;
  const double first = std::fma(-k, ln_2[0], x.high);
  const DoublePair r = normal_pair(first, std::fma(-k, ln_2[1], x.low));
  // 1 + r.high, and the rounding error of this sum.
  const double sum = 1 + r.high, lost = (1 - sum) + r.high;
  const double square = rounded(r.high * r.high);
  const double rest =
      std::fma(square, polynomial(exp_series, r.high), std::fma(r.high, r.low, r.low));
  const double value = sum + (lost + rest);
  // 2^k by halves: one of 2^-1075 or 2^1024 does not exist. Only the second product can round.
  const auto exponent = static_cast<int>(k), half = exponent / 2;
  const auto power_of_two = [](int n) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
  };
  return rounded(rounded(value * power_of_two(half)) * power_of_two(exponent - half));
}

// 2 / (2n + 1) from n = 2: 2 atanh(s) = 2 s + 2/3 s^3 + s^5 times the series in s^2. Cut after
// s^25: below 2^-70 of the whole for |s| <= 0.1716.
inline constexpr std::array<double, 11> atanh_series{2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                                     2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19,
                                                     2.0 / 21, 2.0 / 23, 2.0 / 25};

// ln x for finite x > 0, to a relative error below 2^-63.
inline DoublePair log_of(double x) {
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
  const double s_low = std::fma(-s, low, std::fma(-s, denominator, numerator)) / denominator;
  // s^3 times the series, whose first term needs its low part too.
  const DoublePair square = multiply({s, s_low}, {s, s_low});
  const double tail = rounded(square.high * polynomial(atanh_series, square.high));
  const DoublePair series = normal_pair(0x1.5555555555555p-1, tail + 0x1.5555555555555p-55);
  const DoublePair third = multiply(multiply({s, s_low}, square), series);
  const DoublePair ln_m = normal_pair(2 * s, third.high);

  const double high = rounded(k * ln_2[0]);
  const double high_low = std::fma(k, ln_2[1], std::fma(k, ln_2[0], -high));
  const DoublePair sum = normal_pair(high, ln_m.high);
  const double rest = (sum.low + ln_m.low) + (high_low + (2 * s_low + third.low));
  return normal_pair(sum.high, rest);
}

// sin and cos of r + low, for |r| <= pi / 4. Taylor series, cut below 2^-59.
inline double sine_of(double r, double low) {
  static constexpr std::array<double, 8> series{
      -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
      -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
  const double z = rounded(r * r);
  const double cube = rounded(z * r);
  return r + std::fma(cube, polynomial(series, z), std::fma(-0.5 * z, low, low));
}
inline double cosine_of(double r, double low) {
  static constexpr std::array<double, 7> series{
      1.0 / 24,        -1.0 / 720,         1.0 / 40320,         -1.0 / 3628800,
      1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
  const double z = rounded(r * r), z_low = std::fma(r, r, -z);
  const double sum = std::fma(-0.5, z, 1.0), lost = std::fma(-0.5, z, 1 - sum);
  const double correction = std::fma(r, low, 0.5 * z_low);
  return sum + (lost + std::fma(rounded(z * z), polynomial(series, z), -correction));
}

// The sine of x plus `quarters` quarter turns.
inline double sine_of_turned(double x, int quarters) {
  if (!(std::fabs(x) <= 0x1p20)) return std::numeric_limits<double>::quiet_NaN();
  const double k = std::fma(x, 0x1.45f306dc9c883p-1, to_integer) - to_integer;
  // x - k pi / 2. The first difference is exact: both operands are multiples of 2^-53, and it is
  // below 1 (where k is 0 it is x).
  const double first = std::fma(-k, half_pi[0], x);
  const double product = rounded(k * half_pi[1]);
  const double product_low = std::fma(k, half_pi[2], std::fma(k, half_pi[1], -product));
  const double r = first - product;
  const double low = ((first - r) - product) - product_low;
  const auto turn = (static_cast<std::int64_t>(k) + quarters) & 3;
  const double value = (turn & 1) != 0 ? cosine_of(r, low) : sine_of(r, low);
  return rounded((turn & 2) != 0 ? -value : value);
}

}  // namespace detail

// base^exponent by repeated squaring in pairs of doubles. Below 0.6 units for exponents up to 2^40
// where the result is a normal number.
inline double portable_power(double base, std::uint64_t exponent) {
  detail::DoublePair result{1, 0}, square{base, 0};
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = detail::multiply(result, square);
    if (exponent > 1) square = detail::multiply(square, square);
  }
  return rounded(result.high);
}

// cos x and sin x, for |x| up to 2^20; NaN beyond. Below 1 unit.
inline double portable_cosine(double x) { return detail::sine_of_turned(x, 1); }
inline double portable_sine(double x) { return x == 0 ? x : detail::sine_of_turned(x, 0); }

// e^x. Below 1 unit.
inline double portable_exp(double x) { return detail::exp_of({x, 0}); }

// ln x; NaN below zero. Below 0.6 units.
inline double portable_log(double x) {
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(x)) return x;
  return rounded(detail::log_of(x).high);
}

// base^exponent for base >= 0, NaN below; integers have portable_power. Below 1 unit where the
// result is a normal number. Zeros and infinities as IEEE 754's pow.
inline double portable_pow(double base, double exponent) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (exponent == 0 || base == 1) return 1;
  if (base != base || exponent != exponent) return base + exponent;
  if (base < 0) return std::numeric_limits<double>::quiet_NaN();
  if (base == 0) return exponent > 0 ? 0 : infinity;
  if (base == infinity) return exponent > 0 ? infinity : 0;
  const detail::DoublePair logarithm = detail::log_of(base);
  const double high = rounded(logarithm.high * exponent);
  if (!(std::fabs(high) < 1000)) return high > 0 ? infinity : 0;
  const double low = std::fma(logarithm.high, exponent, -high);
  return detail::exp_of({high, std::fma(logarithm.low, exponent, low)});
}

}  // namespace soma
