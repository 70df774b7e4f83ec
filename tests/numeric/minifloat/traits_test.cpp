// The standard library's view of minifloat: limits from first principles, hash, text, streams,
// formatting.
#include "catch.hpp"
#include "numeric/mismatches.hpp"
#include "numeric/named_types.hpp"
#include "numeric/reference_codec.hpp"

#include <soma/numeric/minifloat_format.hpp>
#include <soma/numeric/minifloat_traits.hpp>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string>
#include <unordered_set>

using namespace soma_test;
using soma::FloatFormat;

namespace {

// Records whose limits are easy to get wrong: 10^3 between the largest number and the next power of
// two, only subnormal numbers, all numbers above 1, no zero, unsigned, flushed.
using Below1000 = soma::minifloat<FloatFormat{.exponent_bits = 4, .mantissa_bits = 3, .bias = 5}>;
using Subnormal = soma::minifloat<FloatFormat{.exponent_bits = 1, .mantissa_bits = 4, .bias = 3}>;
using Large = soma::minifloat<FloatFormat{.exponent_bits = 3, .mantissa_bits = 2, .bias = -30}>;
using NoZero = soma::minifloat<FloatFormat{.exponent_bits = 4,
                                           .mantissa_bits = 2,
                                           .bias = 7,
                                           .specials = Specials::nan_all_ones,
                                           .subnormals = Subnormals::absent}>;
using Unsigned = soma::minifloat<FloatFormat{
    .exponent_bits = 5, .mantissa_bits = 3, .bias = 15, .is_signed = false}>;
using Flushed = soma::minifloat<FloatFormat{.exponent_bits = 5,
                                            .mantissa_bits = 2,
                                            .bias = 15,
                                            .subnormals = Subnormals::flushed,
                                            .overflow = Overflow::saturate}>;

template <class Body>
void for_each_tested_type(Body&& body) {
  for_each_ready_made_type(body);
  for_each_type<Below1000, Subnormal, Large, NoZero, Unsigned, Flushed>(body);
}

}  // namespace

TEST_CASE("numeric_limits gives the extreme numbers", "[unit]") {
  for_each_tested_type([]<class Number>() {
    using L = std::numeric_limits<Number>;
    constexpr FloatFormat f = Number::format;
    const ReferenceCodec reference(f);
    INFO(f);
    const double largest = reference.magnitude(reference.finite_count() - 1);
    const bool zero = f.subnormals != Subnormals::absent;
    const double smallest_normal =
        reference.magnitude(zero ? std::uint64_t{1} << f.mantissa_bits : 0);
    CHECK(static_cast<double>(static_cast<float>((L::max)())) == largest);
    if (f.is_signed)
      CHECK(static_cast<double>(static_cast<float>(L::lowest())) == -largest);
    else
      CHECK(static_cast<double>(static_cast<float>(L::lowest())) == reference.magnitude(0));
    if (smallest_normal <= largest)
      CHECK(static_cast<double>(static_cast<float>((L::min)())) == smallest_normal);
    CHECK(static_cast<double>(static_cast<float>(L::denorm_min())) ==
          (f.subnormals == Subnormals::kept ? reference.magnitude(1) : smallest_normal));
    CHECK(L::has_infinity == reference.is_infinity(L::infinity().code()));
    CHECK(L::has_quiet_NaN == reference.is_nan(L::quiet_NaN().code()));
    CHECK(L::has_quiet_NaN == isnan(L::signaling_NaN()));
    CHECK_FALSE(L::has_signaling_NaN);
  });
}

// From the standard's definitions, by search.
TEST_CASE("numeric_limits counts digits and exponents", "[unit]") {
  for_each_tested_type([]<class Number>() {
    using L = std::numeric_limits<Number>;
    constexpr FloatFormat f = Number::format;
    const ReferenceCodec reference(f);
    INFO(f);
    const double largest = reference.magnitude(reference.finite_count() - 1);
    const bool zero = f.subnormals != Subnormals::absent;
    const double smallest_normal =
        reference.magnitude(zero ? std::uint64_t{1} << f.mantissa_bits : 0);

    CHECK(L::is_specialized);
    CHECK(L::radix == 2);
    CHECK(L::digits == f.mantissa_bits + 1);
    CHECK(L::is_signed == f.is_signed);
    CHECK(L::digits10 == static_cast<int>(std::floor((L::digits - 1) * std::log10(2.0))));
    CHECK(L::max_digits10 == static_cast<int>(std::ceil(L::digits * std::log10(2.0) + 1)));

    // The largest n for which 2^(n-1), and 10^n, is not beyond the largest number; the smallest for
    // which it is normal.
    int max_exponent = -200, max_exponent10 = -60, min_exponent = 200, min_exponent10 = 60;
    for (int n = -200; n <= 200; ++n) {
      if (std::ldexp(1.0, n - 1) <= largest) max_exponent = n;
      if (std::ldexp(1.0, -n - 1) >= smallest_normal) min_exponent = -n;
    }
    for (int n = -60; n <= 60; ++n) {
      if (std::pow(10.0, n) <= largest) max_exponent10 = n;
      if (std::pow(10.0, -n) >= smallest_normal) min_exponent10 = -n;
    }
    CHECK(L::max_exponent == max_exponent);
    CHECK(L::min_exponent == min_exponent);
    CHECK(L::max_exponent10 == max_exponent10);
    CHECK(L::min_exponent10 == min_exponent10);
    CHECK((L::has_denorm == std::denorm_present) == (f.subnormals == Subnormals::kept));
    CHECK(L::round_style == std::round_to_nearest);
  });
}

TEST_CASE("epsilon is the step above 1, and half a unit the rounding error", "[unit]") {
  for_each_ready_made_type([]<class Number>() {
    using L = std::numeric_limits<Number>;
    INFO(Number::format);
    const Number one(1.0f);
    const float step =
        static_cast<float>(Number::from_code(one.code() + 1)) - static_cast<float>(one);
    CHECK(static_cast<float>(L::epsilon()) == step);
    CHECK(static_cast<float>(L::round_error()) == 0.5f);
  });
}

TEST_CASE("the limits of fp32's record are those of float", "[unit]") {
  using L = std::numeric_limits<soma::minifloat<soma::formats::fp32>>;
  using F = std::numeric_limits<float>;
  STATIC_REQUIRE(static_cast<float>((L::max)()) == (F::max)());
  STATIC_REQUIRE(static_cast<float>((L::min)()) == (F::min)());
  STATIC_REQUIRE(static_cast<float>(L::denorm_min()) == F::denorm_min());
  STATIC_REQUIRE(static_cast<float>(L::epsilon()) == F::epsilon());
  STATIC_REQUIRE(L::digits == F::digits && L::digits10 == F::digits10 &&
                 L::max_digits10 == F::max_digits10);
  STATIC_REQUIRE(L::min_exponent == F::min_exponent && L::max_exponent == F::max_exponent);
  STATIC_REQUIRE(L::min_exponent10 == F::min_exponent10 && L::max_exponent10 == F::max_exponent10);
  STATIC_REQUIRE(L::is_iec559 && L::has_infinity && L::has_quiet_NaN);
}

TEST_CASE("is_iec559 only where overflow and subnormals follow IEEE 754", "[unit]") {
  STATIC_REQUIRE(std::numeric_limits<soma::fp16>::is_iec559);
  STATIC_REQUIRE(std::numeric_limits<soma::fp8_e5m2>::is_iec559);
  STATIC_REQUIRE_FALSE(std::numeric_limits<soma::fp8_e4m3fn>::is_iec559);
  STATIC_REQUIRE_FALSE(std::numeric_limits<soma::fp8_e4m3fnuz>::is_iec559);
  STATIC_REQUIRE_FALSE(std::numeric_limits<soma::fp4_e2m1>::is_iec559);
  STATIC_REQUIRE_FALSE(std::numeric_limits<Flushed>::is_iec559);
  STATIC_REQUIRE_FALSE(std::numeric_limits<Unsigned>::is_iec559);
  STATIC_REQUIRE_FALSE(
      std::numeric_limits<
          soma::minifloat<soma::formats::fp16.with(soma::Overflow::saturate)>>::is_iec559);
}

TEST_CASE("equal numbers hash alike and sets hold each once", "[unit]") {
  CHECK(std::hash<soma::bf16>{}(soma::bf16(-0.0f)) == std::hash<soma::bf16>{}(soma::bf16(0.0f)));
  std::unordered_set<soma::fp8_e4m3> seen;
  for (std::uint32_t code = 0; code < 256; ++code)
    if (const auto x = soma::fp8_e4m3::from_code(code); !isnan(x)) seen.insert(x);
  CHECK(seen.size() == 241);  // 240 finite codes and two infinities, less one of the zeros
}

TEST_CASE("text reads back as the same number", "[unit]") {
  CHECK(to_string(soma::fp8_e4m3(0.1f)) == "0.1015625");
  CHECK(to_string(soma::fp8_e4m3(240.0f)) == "240");
  CHECK(to_string(soma::fp8_e4m3(-INFINITY)) == "-inf");
  CHECK(to_string(soma::fp8_e4m3fnuz(NAN)) == "nan");
  CHECK(to_string(soma::fp16(-0.0f)) == "-0");
  Mismatches result;
  for (std::uint32_t code = 0; code < 1u << 16; ++code) {
    const soma::fp16 x = soma::fp16::from_code(code);
    if (isnan(x)) continue;
    const soma::fp16 back(std::strtof(to_string(x).c_str(), nullptr));
    result.expect(back.code() == code, [&](auto& out) { out << to_string(x); });
  }
  CHECK_NONE(result);
}

TEST_CASE("streams print it as a float, under their own flags", "[unit]") {
  std::ostringstream out;
  out << soma::bf16(1.5f) << " " << std::fixed << std::setprecision(3) << soma::fp16(0.1f) << " "
      << std::setw(8) << soma::fp8_e4m3(2.0f);
  CHECK(out.str() == "1.5 0.100    2.000");
  std::wostringstream wide;
  wide << soma::bf16(0.25f);
  CHECK(wide.str() == L"0.25");
}

#if defined(__cpp_lib_format)
TEST_CASE("std::format takes float's specifications", "[unit]") {
  CHECK(std::format("{:.3f} {:>6}", soma::bf16(1.5f), soma::fp16(2.0f)) == "1.500      2");
}
#endif
