// FloatFormat: what the record says of itself, and every reason for refusing one.
#include "catch.hpp"
#include "mismatches.hpp"
#include "reference_codec.hpp"
#include "samples.hpp"

#include <soma/numeric/float_format.hpp>
#include <soma/numeric/formats.hpp>

#include <climits>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

using namespace soma_test;
namespace formats = soma::formats;

static_assert(std::is_trivially_copyable_v<FloatFormat>);
static_assert(FloatFormat{} == formats::fp32);
static_assert(FloatFormat{} != formats::bf16);
static_assert(formats::fp32.bits() == 32 && formats::fp32.bytes() == 4 &&
              formats::fp32.storage_shift() == 0);
static_assert(formats::tf32.bits() == 19 && formats::tf32.bytes() == 4 &&
              formats::tf32.storage_shift() == 13);
static_assert(formats::bf16.bits() == 16 && formats::bf16.bytes() == 2 &&
              formats::bf16.storage_shift() == 0);
static_assert(formats::fp8_e4m3.bits() == 8 && formats::fp8_e4m3.bytes() == 1);
static_assert(formats::fp6_e2m3.bits() == 6 && formats::fp6_e2m3.bytes() == 1);
static_assert(formats::fp4_e2m1.bits() == 4 && formats::fp4_e2m1.bytes() == 1 &&
              formats::fp4_e2m1.storage_shift() == 0);
static_assert(formats::e8m0.bits() == 8 && formats::e8m0.sign_mask() == 0 &&
              !formats::e8m0.has_zero());
static_assert(formats::fp8_e4m3.sign_mask() == 0x80 && formats::fp8_e4m3.magnitude_mask() == 0x7F &&
              formats::fp8_e4m3.mantissa_mask() == 0x07);
static_assert(formats::fp8_e4m3.infinity_code() == 0x78 &&
              formats::fp8_e4m3.quiet_nan_code() == 0x7C);
static_assert(formats::fp8_e4m3fn.quiet_nan_code() == 0x7F &&
              formats::e8m0.quiet_nan_code() == 0xFF);
static_assert(formats::fp8_e4m3fnuz.quiet_nan_code() == 0x80);
static_assert(formats::fp32.magnitude_mask() == 0x7FFFFFFF &&
              formats::fp32.sign_mask() == 0x80000000u);
static_assert(formats::fp8_e4m3.with(Overflow::saturate).overflow == Overflow::saturate);
static_assert(formats::fp8_e4m3.with_bias(9).bias == 9 && formats::fp8_e4m3.bias == 7);
static_assert(FloatFormat{.mantissa_bits = 5}.problem() == nullptr);
static_assert(FloatFormat{.exponent_bits = 9}.problem() != nullptr);
// Values that a cast from a file or a wire could bring.
static_assert(FloatFormat{.specials = static_cast<Specials>(9)}.problem() != nullptr);
static_assert(FloatFormat{.subnormals = static_cast<Subnormals>(3)}.problem() != nullptr);
static_assert(FloatFormat{.overflow = static_cast<Overflow>(4)}.problem() != nullptr);

TEST_CASE("width decides the container", "[unit]") {
  for (int mantissa_bits = 1; mantissa_bits <= 23; ++mantissa_bits) {
    const FloatFormat format{.exponent_bits = 8, .mantissa_bits = mantissa_bits};
    INFO(format);
    CHECK(format.bits() == 9 + mantissa_bits);
    CHECK(format.bytes() == (mantissa_bits <= 7 ? 2 : 4));
    CHECK(format.storage_shift() == (mantissa_bits <= 7 ? 0 : 23 - mantissa_bits));
  }
}

TEST_CASE("resolved_overflow takes infinity, then NaN, then the largest number", "[unit]") {
  CHECK(formats::fp16.resolved_overflow() == Overflow::infinity);
  CHECK(formats::fp8_e4m3fn.resolved_overflow() == Overflow::nan);
  CHECK(formats::fp8_e5m2fnuz.resolved_overflow() == Overflow::nan);
  CHECK(formats::e8m0.resolved_overflow() == Overflow::nan);
  CHECK(formats::fp4_e2m1.resolved_overflow() == Overflow::saturate);
  CHECK(formats::fp16.with(Overflow::nan).resolved_overflow() == Overflow::nan);
  CHECK(formats::fp16.with(Overflow::saturate).resolved_overflow() == Overflow::saturate);
}

// Exponents, special codes and counts, for the ready-made formats and 2000 others, from the values
// themselves.
TEST_CASE("the record's derived quantities agree with its values", "[unit]") {
  Mismatches result;
  const auto check = [&](const FloatFormat& format) {
    const ReferenceCodec reference(format);
    const auto expect = [&](const char* what, std::int64_t given, std::int64_t wanted) {
      result.expect(given == wanted, [&](auto& out) {
        out << soma::to_string(format) << ": " << what << " is " << given << ", wanted " << wanted;
      });
    };
    const std::uint64_t count = reference.finite_count();
    const std::uint64_t smallest = format.subnormals == Subnormals::kept ? 1
                                   : format.subnormals == Subnormals::absent
                                       ? 0
                                       : std::uint64_t{1} << format.mantissa_bits;
    const std::uint64_t normal =
        format.subnormals == Subnormals::absent ? 0 : std::uint64_t{1} << format.mantissa_bits;
    expect("max_finite_code", format.max_finite_code(), static_cast<std::int64_t>(count - 1));
    expect("min_positive_code", format.min_positive_code(), static_cast<std::int64_t>(smallest));
    expect("max_exponent", format.max_exponent(), std::ilogb(reference.magnitude(count - 1)));
    expect("min_normal_exponent", format.min_normal_exponent(),
           std::ilogb(reference.magnitude(normal)));
    expect("min_spacing_exponent", format.min_spacing_exponent(),
           std::ilogb(reference.magnitude(1) - reference.magnitude(0)));
    expect("sign_mask", format.sign_mask(), reference.sign_bit());
    expect("bits", format.bits(), std::ilogb(static_cast<double>(reference.code_count())));
    expect("has_infinity", format.has_infinity(),
           reference.is_infinity(static_cast<std::uint32_t>(count)));
    if (format.has_infinity())
      expect("infinity_code", reference.is_infinity(format.infinity_code()), true);
    if (format.has_nan()) expect("quiet_nan_code", reference.is_nan(format.quiet_nan_code()), true);
  };
  for (const auto& named : soma::named_formats) check(named.format);
  Sequence sequence(41);
  for (int i = 0; i < 2000; ++i) check(random_format(sequence, 32));
  CHECK_NONE(result);
}

TEST_CASE("an impossible record says what it lacks", "[unit]") {
  struct Case {
    FloatFormat format;
    const char* problem;
  };
  using S = Specials;
  const Case cases[] = {
      {{.exponent_bits = 0}, "exponent_bits from 1 to 8"},
      {{.exponent_bits = 9}, "exponent_bits from 1 to 8"},
      {{.exponent_bits = INT_MIN, .mantissa_bits = INT_MAX, .bias = INT_MIN},
       "exponent_bits from 1 to 8"},
      {{.mantissa_bits = -1}, "mantissa_bits from 0 to 23"},
      {{.mantissa_bits = 24}, "mantissa_bits from 0 to 23"},
      {{.mantissa_bits = INT_MAX}, "mantissa_bits from 0 to 23"},
      {{.exponent_bits = 1, .mantissa_bits = 0, .specials = S::none, .is_signed = false},
       "at least 2 bits"},
      {{.mantissa_bits = 0}, "a mantissa bit"},
      {{.exponent_bits = 1, .mantissa_bits = 0, .bias = 0, .specials = S::nan_all_ones},
       "2 bits beside the sign"},
      {{.mantissa_bits = 2, .specials = S::nan_negative_zero, .is_signed = false},
       "a sign and a zero"},
      {{.mantissa_bits = 2, .specials = S::nan_negative_zero, .subnormals = Subnormals::absent},
       "a sign and a zero"},
      {{.mantissa_bits = 2, .specials = S::nan_all_ones, .overflow = Overflow::infinity},
       "a format with infinity"},
      {{.mantissa_bits = 2, .specials = S::none, .overflow = Overflow::infinity},
       "a format with infinity"},
      {{.mantissa_bits = 2, .specials = S::none, .overflow = Overflow::nan}, "a format with NaN"},
      {{.bias = 1025}, "a bias that keeps all values within fp32's"},
      {{.bias = INT_MAX}, "a bias that keeps all values within fp32's"},
      {{.bias = INT_MIN}, "a bias that keeps all values within fp32's"},
      {{.exponent_bits = 1, .mantissa_bits = 2, .bias = 0, .subnormals = Subnormals::flushed},
       "a normal number"},
      {{.bias = 126}, "largest value below 2^128"},
      {{.exponent_bits = 4, .mantissa_bits = 3, .bias = -200}, "largest value below 2^128"},
      {{.bias = 128}, "smallest spacing at or above 2^-149"},
      {{.exponent_bits = 4, .mantissa_bits = 3, .bias = 200},
       "smallest spacing at or above 2^-149"},
  };
  for (const Case& c : cases) {
    REQUIRE(c.format.problem() != nullptr);
    CHECK_THAT(c.format.problem(), contains(c.problem));
  }
}

TEST_CASE("the bias may go as far as fp32 reaches, and no farther", "[unit]") {
  const FloatFormat e4m3 = formats::fp8_e4m3;
  // Largest exponent 14 - bias, smallest spacing 1 - bias - 3.
  CHECK(e4m3.with_bias(14 - 127).problem() == nullptr);
  CHECK(e4m3.with_bias(14 - 128).problem() != nullptr);
  CHECK(e4m3.with_bias(149 - 2).problem() == nullptr);
  CHECK(e4m3.with_bias(150 - 2).problem() != nullptr);
  // fp32 has room for its own bias only.
  for (int bias = 100; bias <= 150; ++bias)
    CHECK((formats::fp32.with_bias(bias).problem() == nullptr) == (bias == 127));
}
