// minifloat's + - * /: the exact result, rounded once. All pairs of all formats up to 8 bits,
// samples of wider ones.
#include "catch.hpp"
#include "numeric/mismatches.hpp"
#include "numeric/named_types.hpp"
#include "numeric/reference_codec.hpp"
#include "numeric/samples.hpp"

#include <soma/numeric/minifloat.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

using namespace soma_test;

namespace {

// A double that stands for result + error in any later rounding to at most 51 bits: where the error
// is not 0 and the result's last bit is even, its neighbour on the error's side (rounding to odd;
// Boldo and Melquiond, 2008). The results of two 24-bit numbers need 2^-298 to 2^276, so nothing
// over- or underflows on the way.
double to_odd(double result, double error) {
  if (error == 0 || (std::bit_cast<std::uint64_t>(result) & 1) != 0) return result;
  return std::nextafter(result, error > 0 ? INFINITY : -INFINITY);
}

double exact(char operation, double a, double b) {
  switch (operation) {
    case '-':
      b = -b;
      [[fallthrough]];
    case '+': {
      const double sum = a + b;
      if (!std::isfinite(sum)) return sum;
      const double b_part = sum - a;  // Knuth's TwoSum: the error of a sum is a double
      return to_odd(sum, (a - (sum - b_part)) + (b - b_part));
    }
    case '*':
      return a * b;  // 48 bits: always exact
    default: {
      const double quotient = a / b;
      if (!std::isfinite(quotient) || b == 0 || std::isinf(b)) return quotient;
      const double remainder = std::fma(-quotient, b, a);  // exact; the error is remainder / b
      return to_odd(quotient, std::signbit(b) ? -remainder : remainder);
    }
  }
}

template <class Number>
void check_pair(Mismatches& result, const ReferenceCodec& reference, Number a, Number b) {
  const double x = static_cast<float>(a), y = static_cast<float>(b);
  const auto check = [&](char operation, Number given) {
    const double wanted_value = exact(operation, x, y);
    const std::uint32_t wanted = reference.encode(wanted_value, RoundingMode::nearest_even);
    // Which NaN an operation on NaN, or an invalid one, gives is the processor's choice.
    const bool right = std::isnan(wanted_value) && Number::format.has_nan()
                           ? isnan(given)
                           : given.code() == wanted;
    result.expect(right, [&](auto& out) {
      out << Number::format << ": " << x << " " << operation << " " << y << " is code "
          << given.code() << ", wanted " << wanted;
    });
  };
  check('+', a + b);
  check('-', a - b);
  check('*', a * b);
  check('/', a / b);
}

template <class Number>
void check_all_pairs(Mismatches& result) {
  const ReferenceCodec reference(Number::format);
  for (std::uint32_t a = 0; a < reference.code_count(); ++a)
    for (std::uint32_t b = 0; b < reference.code_count(); ++b)
      check_pair(result, reference, Number::from_code(a), Number::from_code(b));
}

// Random codes (every exponent is as likely, so many sums cancel, products and quotients become
// subnormal or overflow), and quotients and products of small integers, among them every kind of
// tie.
template <class Number>
void check_random_pairs(Mismatches& result, int pairs) {
  const ReferenceCodec reference(Number::format);
  Sequence sequence(Number::format.mantissa_bits * 100u + 7u);
  const auto any_code = [&] {
    return Number::from_code(static_cast<std::uint32_t>(sequence.next() % reference.code_count()));
  };
  for (int i = 0; i < pairs; ++i) {
    const Number a = any_code(), b = any_code();
    check_pair(result, reference, a, b);
    // The same significands with exponents as near as can be, where sums cancel and round.
    const std::uint32_t flip = 1u << sequence.between(0, Number::format.mantissa_bits + 1);
    check_pair(result, reference, a,
               Number::from_code(a.code() ^ (flip & Number::format.magnitude_mask())));

    const int m = std::min(Number::format.mantissa_bits, 12);
    const Number p(sequence.between(1, 2 << m)), q(sequence.between(1, 2 << m));
    check_pair(result, reference, p, q);
    check_pair(result, reference,
               Number(std::ldexp(static_cast<double>(p), Number::format.min_spacing_exponent())),
               q);
  }
}

}  // namespace

TEST_CASE("arithmetic of every format up to 8 bits is exact, then rounded once: all pairs",
          "[unit][exhaustive]") {
  for_each_8_bit_type([]<class Number>() {
    Mismatches result;
    check_all_pairs<Number>(result);
    CHECK_NONE(result);
  });
}

// Formats that take the other path through a wider type: biases at the ends, unsigned, flushed,
// eight exponent bits.
TEST_CASE("arithmetic of unusual small formats: all pairs", "[unit][exhaustive]") {
  using soma::FloatFormat;
  using Low = soma::minifloat<FloatFormat{.exponent_bits = 4, .mantissa_bits = 3, .bias = 147}>;
  using High = soma::minifloat<FloatFormat{.exponent_bits = 4, .mantissa_bits = 3, .bias = -113}>;
  using Wide = soma::minifloat<FloatFormat{
      .exponent_bits = 7, .mantissa_bits = 1, .bias = 63, .is_signed = false}>;
  using Flushed = soma::minifloat<FloatFormat{.exponent_bits = 3,
                                              .mantissa_bits = 4,
                                              .bias = 3,
                                              .subnormals = Subnormals::flushed,
                                              .overflow = Overflow::saturate}>;
  using OneBit = soma::minifloat<FloatFormat{.exponent_bits = 8,
                                             .mantissa_bits = 0,
                                             .bias = 128,
                                             .specials = Specials::none,
                                             .is_signed = false}>;
  for_each_type<Low, High, Wide, Flushed, OneBit>([]<class Number>() {
    Mismatches result;
    check_all_pairs<Number>(result);
    CHECK_NONE(result);
  });
}

TEST_CASE("arithmetic of bf16, fp16, tf32 and fp32: random pairs and ties", "[unit]") {
  for_each_type<soma::bf16, soma::fp16, soma::tf32, soma::minifloat<soma::formats::fp32>>(
      []<class Number>() {
        Mismatches result;
        check_random_pairs<Number>(result, 100000);
        CHECK_NONE(result);
      });
}

TEST_CASE("results next to a tie or the overflow threshold", "[unit]") {
  using soma::bf16;
  using soma::fp16;
  using soma::tf32;
  // Products of tf32 just beside 1.5 and 0.5 of its smallest number; fp32's subnormals are too
  // coarse to tell.
  const tf32 below = tf32(1028 * 0x1p-100f) * tf32(1530 * 0x1p-56f);
  CHECK(below.code() == 1);
  CHECK(tf32(1028 * 0x1p-100f * (1530 * 0x1p-56f)).code() == 2);
  const tf32 above = tf32(1044 * 0x1p-100f) * tf32(2009 * 0x1p-58f);
  CHECK(above.code() == 1);
  CHECK(tf32(1044 * 0x1p-100f * (2009 * 0x1p-58f)).code() == 0);

  CHECK((bf16::from_code(1) * bf16(0.5f)).code() == 0);
  CHECK((bf16::from_code(3) * bf16(0.5f)).code() == 2);
  CHECK((bf16::from_code(1) * bf16(0x1.02p-1f)).code() == 1);
  CHECK((fp16::from_code(1) / fp16(2.0f)).code() == 0);
  CHECK((fp16::from_code(3) / fp16(2.0f)).code() == 2);
  CHECK((fp16(65504.0f) + fp16(16.0f)).code() == 0x7C00);
  CHECK((fp16(65504.0f) + fp16(15.9921875f)).code() == 0x7BFF);
}

TEST_CASE("compound assignment is the operation and the assignment", "[unit]") {
  soma::bf16 x(1.5f);
  CHECK((x += soma::bf16(0.25f)) == soma::bf16(1.75f));
  CHECK((x -= soma::bf16(0.75f)) == soma::bf16(1.0f));
  CHECK((x *= soma::bf16(3.0f)) == soma::bf16(3.0f));
  CHECK((x /= soma::bf16(2.0f)) == soma::bf16(1.5f));
  CHECK(x == soma::bf16(1.5f));
}

TEST_CASE("arithmetic is a constant expression, division by zero included", "[unit]") {
  using soma::fp16;
  using soma::fp8_e4m3;
  using soma::fp8_e4m3fn;
  STATIC_REQUIRE((fp16(1.0f) + fp16(2.0f)) == fp16(3.0f));
  STATIC_REQUIRE((fp8_e4m3(1.0f) / fp8_e4m3(3.0f)).code() == 0x2B);
  STATIC_REQUIRE((fp16(1.0f) / fp16(0.0f)).code() == 0x7C00);
  STATIC_REQUIRE((fp16(-1.0f) / fp16(0.0f)).code() == 0xFC00);
  STATIC_REQUIRE((fp16(1.0f) / fp16(-0.0f)).code() == 0xFC00);
  STATIC_REQUIRE((fp16(-1.0f) / fp16(-0.0f)).code() == 0x7C00);
  STATIC_REQUIRE(isnan(fp16(0.0f) / fp16(0.0f)));
  STATIC_REQUIRE(isnan(fp8_e4m3fn(1.0f) / fp8_e4m3fn(0.0f)));
  STATIC_REQUIRE((soma::fp4_e2m1(-1.0f) / soma::fp4_e2m1(0.0f)) == soma::fp4_e2m1(-6.0f));
}
