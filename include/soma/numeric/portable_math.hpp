#pragma once
// A few functions of double with the same bits on every machine, from every compiler, with any
// -ffp-contract: learning-rate schedules, bias corrections and initialisers must not depend on the
// host's libm. Not for inner loops.
//
// Two rules ensure it. A product that is fused with a sum is written as fused_multiply_add(). A
// product that must not be fused passes through rounded(), which a compiler cannot look into;
// results pass through it too, because a caller may add to them. Error bounds are in units in the
// last place of the result; the tests measure against long double.

#include <soma/base/config.hpp>
#include <soma/numeric/fused.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace SOMA_NAMESPACE {

// The same value, rounded to double, as an operand that cannot be fused with what comes next.
double rounded(double value);

namespace detail {

// The unevaluated sum of a double and its error, which is below half a unit in its last place.
struct DoublePair {
  double high, low;
};

// high + low in normal form, for |high| >= |low|.
DoublePair normal_pair(double high, double low);

// a * b. Relative error below 2^-102 while nothing underflows.
DoublePair multiply(DoublePair a, DoublePair b);

// c[0] + x c[1] + x^2 c[2] ...
template <std::size_t count>
double polynomial(const std::array<double, count>& c, double x) {
  double sum = c[count - 1];
  for (std::size_t i = count - 1; i-- > 0;) sum = fused_multiply_add(sum, x, c[i]);
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
double exp_of(DoublePair x);

// 2 / (2n + 1) from n = 2: 2 atanh(s) = 2 s + 2/3 s^3 + s^5 times the series in s^2. Cut after
// s^25: below 2^-70 of the whole for |s| <= 0.1716.
inline constexpr std::array<double, 11> atanh_series{2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                                     2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19,
                                                     2.0 / 21, 2.0 / 23, 2.0 / 25};

// ln x for finite x > 0, to a relative error below 2^-63.
DoublePair log_of(double x);

// sin and cos of r + low, for |r| <= pi / 4. Taylor series, cut below 2^-59.
double sine_of(double r, double low);
double cosine_of(double r, double low);

// The sine of x plus `quarters` quarter turns.
double sine_of_turned(double x, int quarters);

}  // namespace detail

// base^exponent by repeated squaring in pairs of doubles. Below 0.6 units for exponents up to 2^40
// where the result is a normal number.
double portable_power(double base, std::uint64_t exponent);

// cos x and sin x, for |x| up to 2^20; NaN beyond. Below 1 unit.
double portable_cosine(double x);
double portable_sine(double x);

// e^x. Below 1 unit.
double portable_exp(double x);

// ln x; NaN below zero. Below 0.6 units.
double portable_log(double x);

// base^exponent for base >= 0, NaN below; integers have portable_power. Below 1 unit where the
// result is a normal number. Zeros and infinities as IEEE 754's pow.
double portable_pow(double base, double exponent);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/numeric/impl/portable_math.ipp>
#endif
