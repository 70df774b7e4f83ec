// minifloat as a type: size, conversions, sign, comparison, predicates, literals. Arithmetic:
// minifloat_arithmetic_test.
#include "catch.hpp"
#include "numeric/mismatches.hpp"
#include "numeric/named_types.hpp"
#include "numeric/reference_codec.hpp"
#include "numeric/samples.hpp"

#include <soma/numeric/minifloat.hpp>

#include <bit>
#include <cmath>
#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

using namespace soma_test;
using soma::Rounding;

namespace {

template <class Number>
constexpr bool is_plain_data =
    std::is_trivially_copyable_v<Number>&& std::is_standard_layout_v<Number>&&
        std::is_trivially_default_constructible_v<Number>&&
            std::is_nothrow_copy_constructible_v<Number> &&
    sizeof(Number) == static_cast<std::size_t>(Number::format.bytes()) &&
    alignof(Number) == alignof(typename Number::Storage);

// Codes of a type: all of them up to 19 bits, every 4099th of fp32.
template <class Number, class Body>
void for_each_code(Body&& body) {
  const ReferenceCodec reference(Number::format);
  const std::uint64_t step = reference.code_count() > 1u << 19 ? 4099 : 1;
  for (std::uint64_t code = 0; code < reference.code_count(); code += step)
    body(reference, static_cast<std::uint32_t>(code));
}

}  // namespace

static_assert(sizeof(soma::fp4_e2m1) == 1 && sizeof(soma::fp6_e2m3) == 1 &&
              sizeof(soma::fp8_e4m3) == 1);
static_assert(sizeof(soma::bf16) == 2 && sizeof(soma::fp16) == 2 && sizeof(soma::tf32) == 4);
static_assert(is_plain_data<soma::fp8_e3m4> && is_plain_data<soma::e8m0> &&
              is_plain_data<soma::bf16>);
static_assert(is_plain_data<soma::fp16> && is_plain_data<soma::tf32> &&
              is_plain_data<soma::fp4_e2m1>);

// To float without asking, from float only when asked; two formats meet in float.
static_assert(std::convertible_to<soma::bf16, float>);
static_assert(!std::convertible_to<float, soma::bf16> &&
              std::constructible_from<soma::bf16, float>);
static_assert(!std::convertible_to<soma::fp16, soma::bf16> &&
              std::constructible_from<soma::bf16, soma::fp16>);
static_assert(std::same_as<decltype(soma::bf16(1.0f) + soma::bf16(1.0f)), soma::bf16>);
static_assert(std::same_as<decltype(soma::bf16(1.0f) + soma::fp16(1.0f)), float>);
static_assert(std::same_as<decltype(soma::bf16(1.0f) * 2.0f), float>);
static_assert(std::same_as<decltype(2 * soma::bf16(1.0f)), float>);
static_assert(std::same_as<decltype(soma::bf16(1.0f) * 2.0), double>);
static_assert(std::three_way_comparable<soma::bf16, std::partial_ordering>);

// OCP's e5m2 is cFP8's: one record, one type.
static_assert(
    std::same_as<
        soma::minifloat<soma::FloatFormat{.exponent_bits = 5, .mantissa_bits = 2, .bias = 15}>,
        soma::fp8_e5m2>);

TEST_CASE("bits, codes and values of every type", "[unit][exhaustive]") {
  for_each_ready_made_type([]<class Number>() {
    Mismatches result;
    for_each_code<Number>([&](const ReferenceCodec& reference, std::uint32_t code) {
      const Number x = Number::from_code(code);
      const auto describe = [&](auto& out) { out << Number::format << " code " << code; };
      result.expect(x.code() == code, describe);
      result.expect(x.bits() == code << Number::format.storage_shift(), describe);
      result.expect(Number::from_bits(x.bits()).code() == code, describe);
      result.expect(bits_of(static_cast<float>(x)) == reference.decode_bits(code), describe);
      result.expect(Number(static_cast<float>(x)).code() == code, describe);
    });
    CHECK_NONE(result);
  });
}

TEST_CASE("a tf32's bits are an fp32's", "[unit]") {
  CHECK(soma::tf32(1.5f).bits() == bits_of(1.5f));
  CHECK(soma::tf32(-0x1.004p-3f).bits() == bits_of(-0x1.004p-3f));
  CHECK(soma::tf32(1 + 0x1p-11f).bits() == bits_of(1.0f));
  CHECK(std::bit_cast<float>(soma::tf32(0x1p-136f)) == 0x1p-136f);
}

TEST_CASE("sign, absolute value and predicates of every code", "[unit][exhaustive]") {
  for_each_ready_made_type([]<class Number>() {
    Mismatches result;
    for_each_code<Number>([&](const ReferenceCodec& reference, std::uint32_t code) {
      const Number x = Number::from_code(code);
      const float value = x;
      const auto describe = [&](auto& out) { out << Number::format << " code " << code; };
      const bool nan = reference.is_nan(code), infinite = reference.is_infinity(code);
      result.expect(isnan(x) == nan, describe);
      result.expect(isinf(x) == infinite, describe);
      result.expect(isfinite(x) == (!nan && !infinite), describe);
      const std::uint64_t smallest_normal =
          Number::format.has_zero() ? std::uint64_t{1} << Number::format.mantissa_bits : 0;
      result.expect(isnormal(x) == (!nan && !infinite &&
                                    std::fabs(value) >= reference.magnitude(smallest_normal)),
                    describe);
      result.expect(signbit(x) == ((code & reference.sign_bit()) != 0), describe);
      result.expect((+x).code() == code, describe);
      if (nan) {
        result.expect(isnan(-x) && isnan(abs(x)), describe);
      } else if constexpr (Number::format.is_signed) {
        result.expect(
            static_cast<float>(-x) == -value && static_cast<float>(abs(x)) == std::fabs(value),
            describe);
        result.expect(-(-x) == x, describe);
      } else {
        result.expect(isnan(-x) && abs(x) == x, describe);  // only e8m0 of the ready-made types
      }
    });
    CHECK_NONE(result);
  });
}

TEST_CASE("negation flips the sign bit where there is one", "[unit]") {
  CHECK((-soma::fp16(0.0f)).code() == 0x8000);
  CHECK((-soma::fp16::from_code(0x7E01)).code() == 0xFE01);
  CHECK((-soma::fp8_e4m3fnuz(0.0f)).code() == 0x00);
  CHECK((-soma::fp8_e4m3fnuz::from_code(0x80)).code() == 0x80);
  CHECK((-soma::fp8_e4m3fn::from_code(0x7F)).code() == 0xFF);
  using Unsigned = soma::minifloat<FloatFormat{
      .exponent_bits = 4, .mantissa_bits = 4, .bias = 7, .is_signed = false}>;
  CHECK(isnan(-Unsigned(1.0f)));
  CHECK((-Unsigned(0.0f)).code() == 0);
}

TEST_CASE("comparison is by value, all pairs", "[unit][exhaustive]") {
  for_each_8_bit_type([]<class Number>() {
    Mismatches result;
    for_each_code<Number>([&](const ReferenceCodec&, std::uint32_t i) {
      for_each_code<Number>([&](const ReferenceCodec&, std::uint32_t j) {
        const Number a = Number::from_code(i), b = Number::from_code(j);
        const float x = a, y = b;
        result.expect((a == b) == (x == y) && (a != b) == (x != y) && (a < b) == (x < y) &&
                          (a > b) == (x > y) && (a <= b) == (x <= y) && (a >= b) == (x >= y) &&
                          (a <=> b) == (x <=> y),
                      [&](auto& out) { out << Number::format << " " << x << " and " << y; });
      });
    });
    CHECK_NONE(result);
  });
  CHECK(soma::bf16(-0.0f) == soma::bf16(0.0f));
  CHECK(soma::bf16(NAN) != soma::bf16(NAN));
  CHECK((soma::bf16(NAN) <=> soma::bf16(1.0f)) == std::partial_ordering::unordered);
}

TEST_CASE("construction rounds once, as told", "[unit]") {
  using soma::bf16;
  using soma::fp16;
  CHECK(bf16(1 + 0x1p-8f).code() == 0x3F80);
  CHECK(bf16(1 + 0x1p-8f, Rounding::nearest_away).code() == 0x3F81);
  CHECK(bf16(1 + 0x1p-8f, Rounding::up).code() == 0x3F81);
  CHECK(bf16(-1 - 0x1p-8f, Rounding::up).code() == 0xBF80);
  CHECK(bf16(1 + 0x1p-8f, Rounding::stochastic, 0x7FFF0000u).code() == 0x3F80);
  CHECK(bf16(1 + 0x1p-8f, Rounding::stochastic, 0x80000000u).code() == 0x3F81);
  CHECK(bf16(0x1.0100000001p0).code() == 0x3F81);
  // From another format: 1 + 2^-8 is a number in fp16.
  CHECK(bf16(fp16(1 + 0x1p-8f)).code() == 0x3F80);
  CHECK(bf16(fp16(1 + 0x1p-8f), Rounding::up).code() == 0x3F81);
  CHECK(fp16(bf16(0x1p-25f)).code() == 0);
  CHECK(fp16(bf16(1e30f)).code() == 0x7C00);
}

TEST_CASE("integers round once up to 2^53", "[unit]") {
  using soma::bf16;
  using soma::fp16;
  using soma::fp8_e4m3fn;
  CHECK(static_cast<float>(fp16(2049)) == 2048.0f);
  CHECK(static_cast<float>(fp16(2051)) == 2052.0f);
  CHECK(static_cast<float>(fp16(std::int8_t{-5})) == -5.0f);
  CHECK(static_cast<float>(fp8_e4m3fn(std::uint64_t{448})) == 448.0f);
  CHECK(static_cast<float>(bf16(0)) == 0.0f);
  // 2^32 + 2^24 is a tie in bf16, and one more is above it; fp32 cannot tell the two apart.
  CHECK(bf16((std::int64_t{1} << 32) + (1 << 24)).code() == 0x4F80);
  CHECK(bf16((std::int64_t{1} << 32) + (1 << 24) + 1).code() == 0x4F81);
  STATIC_REQUIRE(fp16(7) == fp16(7.0f));
}

TEST_CASE("literals are the numbers they read", "[unit]") {
  using namespace soma::literals;
  STATIC_REQUIRE(std::same_as<decltype(1.5_bf16), soma::bf16>);
  STATIC_REQUIRE((1.5_bf16).code() == 0x3FC0);
  STATIC_REQUIRE((65504.0_fp16).code() == 0x7BFF);
  STATIC_REQUIRE((0.1_e3m4).code() == 0x06);
  STATIC_REQUIRE((0.1_e4m3).code() == 0x1D);
  STATIC_REQUIRE((0.1_e5m2).code() == 0x2E);
  STATIC_REQUIRE((448.0_e4m3fn).code() == 0x7E);
  STATIC_REQUIRE((1.5_tf32).bits() == 0x3FC00000);
  CHECK((1e-30_bf16).code() == soma::bf16(1e-30).code());
  CHECK((1e5_fp16).code() == 0x7C00);
}

// The excess of 2^-62 over a tie is there in an x86 long double and gone in a double.
TEST_CASE("literals round once from long double", "[unit]") {
  if constexpr (std::numeric_limits<long double>::digits >= 64) {
    using namespace soma::literals;
    CHECK((0x1.0100000000000004p0_bf16).code() == 0x3F81);
    CHECK((0x1.02fffffffffffffcp0_bf16).code() == 0x3F81);
    CHECK((0x1.0020000000000004p0_fp16).code() == 0x3C01);
    CHECK((0x1.1000000000000004p0_e4m3).code() == 0x39);
  } else {
    CHECK(std::numeric_limits<long double>::digits >= 53);
  }
}
