// The portable functions against long double, their exact cases, and that nothing the caller does
// is fused into them.

#include <soma/numeric/draw.hpp>
#include <soma/numeric/portable_math.hpp>

#include "catch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace soma;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Distance in units in the last place of the nearest double to `exact`. libm's long double is
// itself within a unit of 2^-64 of the result: 2^-11 of ours.
double units(double value, long double exact) {
  if (value == static_cast<double>(exact)) {
    if (!std::isfinite(value) || value == 0) return 0;
  }
  const double magnitude = std::max(std::fabs(static_cast<double>(exact)), 0x1p-1022);
  const double unit = std::nextafter(magnitude, infinity) - magnitude;
  return static_cast<double>(std::fabs(static_cast<long double>(value) - exact) / unit);
}

// A uniform number from low to high.
double between(std::uint64_t index, double low, double high) {
  const Draw draw{.seed = 77};
  const std::uint64_t bits =
      (std::uint64_t{random_word(draw, 2 * index)} << 32) | random_word(draw, 2 * index + 1);
  return low + (high - low) * (static_cast<double>(bits >> 11) * 0x1p-53);
}

// The largest error of `value` against `exact` over points from low to high.
template <class Value, class Exact>
double worst(double low, double high, const Value& value, const Exact& exact) {
  double most = 0;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const double x = between(i, low, high);
    most = std::max(most, units(value(x), exact(static_cast<long double>(x))));
  }
  return most;
}

constexpr bool has_long_double = std::numeric_limits<long double>::digits >= 64;

}  // namespace

TEST_CASE("portable functions are within their bounds of the exact value", "[unit][portable]") {
  if (!has_long_double) return;  // nothing finer to compare with
  const auto report = [](const std::string& what, double most, double bound) {
    INFO(what << ": " << most << " units");
    CHECK(most < bound);
  };
  const auto exp_l = [](long double x) { return std::exp(x); };
  report("exp", worst(-708, 709.7, portable_exp, exp_l), 1);
  report("exp near 0", worst(-0.5, 0.5, portable_exp, exp_l), 1);
  // Rounded twice below the normal numbers: half a unit more.
  report("exp, subnormal", worst(-745, -708, portable_exp, exp_l), 1.5);

  const auto log_l = [](long double x) { return std::log(x); };
  report("log", worst(0, 1e6, portable_log, log_l), 0.6);
  report("log near 1", worst(0.99, 1.01, portable_log, log_l), 0.6);
  report("log next to 1", worst(1 - 0x1p-40, 1 + 0x1p-40, portable_log, log_l), 0.6);
  report("log, subnormal", worst(0, 0x1p-1030, portable_log, log_l), 0.6);

  const auto cos_l = [](long double x) { return std::cos(x); };
  const auto sin_l = [](long double x) { return std::sin(x); };
  report("cosine", worst(-10, 10, portable_cosine, cos_l), 1);
  report("cosine far", worst(-0x1p20, 0x1p20, portable_cosine, cos_l), 1);
  report("sine", worst(-10, 10, portable_sine, sin_l), 1);
  report("sine near 0", worst(-0x1p-30, 0x1p-30, portable_sine, sin_l), 1);
}

TEST_CASE("cosine keeps its digits where it crosses zero", "[unit][portable]") {
  // cos(fl(pi / 2)) and cos(fl(3 pi / 2)), from the digits of pi.
  CHECK(portable_cosine(0x1.921fb54442d18p+0) == 6.123233995736766e-17);
  CHECK(portable_cosine(0x1.2d97c7f3321d2p+2) == -1.8369701987210297e-16);
  CHECK(portable_sine(0x1.921fb54442d18p+1) == 1.2246467991473532e-16);
}

TEST_CASE("portable powers are within their bounds of the exact value", "[unit][portable]") {
  if (!has_long_double) return;
  double most = 0;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const double base = between(2 * i, 0, 30), exponent = between(2 * i + 1, -200, 200);
    const long double exact =
        std::pow(static_cast<long double>(base), static_cast<long double>(exponent));
    if (exact > 1e-307L && exact < 1e308L)
      most = std::max(most, units(portable_pow(base, exponent), exact));
  }
  INFO(most << " units");
  CHECK(most < 1);

  // Integer exponents: long double's own pow is exact to 2^-11 of our units for any of them.
  double integers = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const double base = between(i, 0.9, 1.0);
    const auto exponent = static_cast<std::uint64_t>(between(i + 1000000, 0, 5000));
    const long double exact =
        std::pow(static_cast<long double>(base), static_cast<long double>(exponent));
    integers = std::max(integers, units(portable_power(base, exponent), exact));
  }
  INFO(integers << " units, integer exponents");
  CHECK(integers < 0.6);
  const long double far = std::pow(static_cast<long double>(0.999999), 1e8L);
  CHECK(units(portable_power(0.999999, 100000000), far) < 0.6);
}

TEST_CASE("portable functions have their exact cases", "[unit][portable]") {
  CHECK(portable_power(0.5, 0) == 1);
  CHECK(portable_power(0, 0) == 1);
  CHECK(portable_power(0, 3) == 0);
  CHECK(portable_power(-3, 5) == -243);
  CHECK(portable_power(2, 1023) == 0x1p1023);
  CHECK(portable_power(2, 1024) == infinity);
  CHECK(portable_power(2, ~std::uint64_t{0}) == infinity);
  CHECK(portable_power(0.5, ~std::uint64_t{0}) == 0);
  CHECK(portable_power(0.999, 1) == 0.999);
  CHECK(std::isnan(portable_power(std::nan(""), 2)));

  CHECK(portable_exp(0) == 1);
  CHECK(portable_exp(1) == 2.718281828459045);
  CHECK(portable_exp(infinity) == infinity);
  CHECK(portable_exp(-infinity) == 0);
  CHECK(portable_exp(709.782712893384) < infinity);
  CHECK(portable_exp(709.7827128933841) == infinity);
  CHECK(portable_exp(-745.1332191019411) == std::numeric_limits<double>::denorm_min());
  CHECK(std::isnan(portable_exp(std::nan(""))));

  CHECK(portable_log(1) == 0);
  CHECK(portable_log(2) == 0.6931471805599453);
  CHECK(portable_log(0) == -infinity);
  CHECK(portable_log(infinity) == infinity);
  CHECK(std::isnan(portable_log(-1)));
  CHECK(std::isnan(portable_log(std::nan(""))));

  CHECK(portable_pow(2, 0.5) == 1.4142135623730951);
  CHECK(portable_pow(9, -0.5) == 1.0 / 3);
  CHECK(portable_pow(10000, -0.25) == 0.1);
  CHECK(portable_pow(0, 2) == 0);
  CHECK(portable_pow(0, -2) == infinity);
  CHECK(portable_pow(5, 0) == 1);
  CHECK(portable_pow(1, infinity) == 1);
  CHECK(portable_pow(2, infinity) == infinity);
  CHECK(portable_pow(2, -infinity) == 0);
  CHECK(portable_pow(0.5, infinity) == 0);
  CHECK(portable_pow(infinity, -1) == 0);
  CHECK(std::isnan(portable_pow(-2, 0.5)));
  CHECK(std::isnan(portable_pow(2, std::nan(""))));

  CHECK(portable_cosine(0) == 1);
  CHECK(portable_sine(0) == 0);
  CHECK(std::signbit(portable_sine(-0.0)));
  CHECK(std::isnan(portable_cosine(infinity)));
  CHECK(std::isnan(portable_cosine(std::nan(""))));
}

TEST_CASE("portable results do not depend on compiler or flags", "[unit][portable]") {
  // FNV-1a over the bits of results that callers combine with sums and differences on the spot.
  // The value was the same from g++ and clang++ at -O0, -O2 and -O3, with and without fused
  // multiply-add, with -ffp-contract=off and fast, on x86-64 and aarch64.
  std::uint64_t hash = 0xCBF29CE484222325u;
  const auto add = [&hash](double value) {
    auto bits = std::bit_cast<std::uint64_t>(value);
    for (int i = 0; i < 8; ++i, bits >>= 8) hash = (hash ^ (bits & 0xFF)) * 0x100000001B3u;
  };
  for (int i = 1; i < 20000; ++i) {
    const double x = i * 0x1p-12;  // exact
    add(1 - portable_power(0.999, static_cast<std::uint64_t>(i)));
    add(1 + portable_cosine(x));
    add(portable_sine(x) - 0.1);
    add(1 - portable_exp(-x));
    add(portable_log(x) + 0.3);
    add(portable_pow(x, -0.37) - 1);
    add(rounded(x * 0.1) + 0.7);
  }
  CHECK(hash == 0xB9173244E8C71006u);
}
