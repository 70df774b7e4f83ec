// Codes and values of ml_dtypes and numpy, stored by ml_dtypes_reference.py, against ours. Where
// the two differ the difference is listed below with its reason and our value; any other difference
// fails, and so does a listed one that no longer occurs.
#include "catch.hpp"
#include "numeric/mismatches.hpp"

#include <soma/numeric/codec.hpp>
#include <soma/numeric/formats.hpp>

#include <bit>
#include <cstdint>
#include <iterator>
#include <span>

using soma::FloatFormat;
using soma::Specials;
namespace formats = soma::formats;

namespace ml_dtypes {
#include "reference.inc"
}

namespace {

// Why we differ, what ml_dtypes gives and what we give.
struct Difference {
  const char* reason;
  std::uint32_t theirs, ours;
};
constexpr Difference none{nullptr, 0, 0};

// The expected difference in encoding an fp32 pattern.
constexpr Difference encode_difference(const FloatFormat& format, std::uint32_t pattern) {
  const std::uint32_t magnitude = pattern & 0x7FFFFFFFu;
  const bool is_nan = magnitude > 0x7F800000u;
  const std::uint32_t sign = pattern >> 31 != 0 ? format.sign_mask() : 0;
  if (is_nan && !format.has_nan())
    return {"no NaN in the format: they give zero of the other sign, we the largest number",
            format.sign_mask() ^ sign, format.max_finite_code()};
  if (is_nan && format.specials == Specials::ieee) {
    const std::uint32_t infinity = format.infinity_code() | sign;
    const std::uint32_t payload = (magnitude & 0x7FFFFFu) >> (23 - format.mantissa_bits);
    const std::uint32_t quiet = format.quiet_nan_code() | sign;
    const bool is_numpy = format == formats::fp16;
    if (is_numpy && payload == 0)
      return {
          "a payload of low bits only: numpy sets the lowest bit that is left, we the quiet bit",
          infinity | 1, quiet};
    if (!is_numpy && payload != 0 && (infinity | payload) != quiet)
      return {"NaN: they make the quiet one, we keep the payload's top bits", quiet,
              infinity | payload};
  }
  if (format == formats::e8m0) {
    if (magnitude == 0)
      return {"no zero in the format: they give NaN, we the smallest number", 0xFF, 0x00};
    if (pattern > 0x00400000u && pattern < 0x00600000u)
      return {"an fp32 subnormal above 2^-127: they round up always, we to nearest", 0x01, 0x00};
  }
  return none;
}

// The expected difference in decoding a code.
constexpr Difference decode_difference(const FloatFormat& format, std::uint32_t code) {
  const std::uint32_t low = code & format.magnitude_mask();
  const std::uint32_t sign = (code & format.sign_mask()) != 0 ? 0x80000000u : 0;
  if (format.specials == Specials::nan_negative_zero && code == format.sign_mask())
    return {"the one NaN, whose sign is part of its code: they give it a sign, we none",
            0xFFC00000u, 0x7FC00000u};
  if (format.specials == Specials::ieee && low > format.infinity_code() &&
      low != format.quiet_nan_code()) {
    const std::uint32_t payload = (low & format.mantissa_mask()) << (23 - format.mantissa_bits);
    return {"NaN: they make the quiet one, we keep the payload", sign | 0x7FC00000u,
            sign | 0x7F800000u | payload};
  }
  return none;
}

// Compares and returns how many listed differences there were.
template <class Ours, class Theirs>
int compare(soma_test::Mismatches& result, Ours ours, Theirs theirs, const Difference& difference,
            const FloatFormat& format, std::uint32_t input) {
  const auto given = static_cast<std::uint32_t>(ours),
             reference = static_cast<std::uint32_t>(theirs);
  const bool listed = difference.reason != nullptr;
  const bool right =
      listed ? given == difference.ours && reference == difference.theirs : given == reference;
  result.expect(right, [&](auto& out) {
    out << format << std::hex << ": " << input << " is " << given << " here and " << reference
        << " there" << std::dec << (listed ? "; listed: " : "")
        << (listed ? difference.reason : "");
  });
  return listed ? 1 : 0;
}

template <class Code>
void check_codes(const FloatFormat& format, std::span<const Code> codes, int wanted_differences) {
  soma_test::Mismatches result;
  REQUIRE(codes.size() == std::size(ml_dtypes::inputs));
  int differences = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::uint32_t pattern = ml_dtypes::inputs[i];
    differences += compare(result, soma::encode(format, std::bit_cast<float>(pattern)), codes[i],
                           encode_difference(format, pattern), format, pattern);
  }
  CHECK_NONE(result);
  CHECK(differences == wanted_differences);
}

void check_values(const FloatFormat& format, std::span<const std::uint32_t> values,
                  int wanted_differences) {
  soma_test::Mismatches result;
  REQUIRE(values.size() == std::size_t{1} << format.bits());
  int differences = 0;
  for (std::uint32_t code = 0; code < values.size(); ++code)
    differences += compare(result, std::bit_cast<std::uint32_t>(soma::decode(format, code)),
                           values[code], decode_difference(format, code), format, code);
  CHECK_NONE(result);
  CHECK(differences == wanted_differences);
}

template <class Code, std::size_t N>
void check_codes(const FloatFormat& format, const Code (&codes)[N], int wanted_differences) {
  check_codes(format, std::span<const Code>(codes), wanted_differences);
}

}  // namespace

// Two for each payload but the quiet one: 14, 6 and 2 payloads of each sign.
TEST_CASE("all codes decode as in ml_dtypes, but for the listed NaNs", "[unit][exhaustive]") {
  check_values(formats::fp8_e3m4, ml_dtypes::fp8_e3m4_values, 2 * 14);
  check_values(formats::fp8_e4m3, ml_dtypes::fp8_e4m3_values, 2 * 6);
  check_values(formats::fp8_e5m2, ml_dtypes::fp8_e5m2_values, 2 * 2);
  check_values(formats::fp8_e4m3fn, ml_dtypes::fp8_e4m3fn_values, 0);
  check_values(formats::fp8_e4m3fnuz, ml_dtypes::fp8_e4m3fnuz_values, 1);
  check_values(formats::fp8_e5m2fnuz, ml_dtypes::fp8_e5m2fnuz_values, 1);
  check_values(formats::e8m0, ml_dtypes::e8m0_values, 0);
  check_values(formats::fp6_e2m3, ml_dtypes::fp6_e2m3_values, 0);
  check_values(formats::fp6_e3m2, ml_dtypes::fp6_e3m2_values, 0);
  check_values(formats::fp4_e2m1, ml_dtypes::fp4_e2m1_values, 0);
}

// The inputs hold eight NaNs of each sign. Of their payloads 5, 4, 3 and 6 are kept by e3m4, e4m3,
// e5m2 and bf16 and are not the quiet one; one vanishes in fp16.
TEST_CASE("floats encode as in ml_dtypes and numpy, but for the listed differences", "[unit]") {
  CHECK(std::size(ml_dtypes::inputs) > 900);
  check_codes(formats::fp8_e3m4, ml_dtypes::fp8_e3m4_codes, 2 * 5);
  check_codes(formats::fp8_e4m3, ml_dtypes::fp8_e4m3_codes, 2 * 4);
  check_codes(formats::fp8_e5m2, ml_dtypes::fp8_e5m2_codes, 2 * 3);
  check_codes(formats::fp8_e4m3fn, ml_dtypes::fp8_e4m3fn_codes, 0);
  check_codes(formats::fp8_e4m3fnuz, ml_dtypes::fp8_e4m3fnuz_codes, 0);
  check_codes(formats::fp8_e5m2fnuz, ml_dtypes::fp8_e5m2fnuz_codes, 0);
  check_codes(formats::e8m0, ml_dtypes::e8m0_codes, 3);  // two zeros, one subnormal
  check_codes(formats::fp6_e2m3, ml_dtypes::fp6_e2m3_codes, 2 * 8);
  check_codes(formats::fp6_e3m2, ml_dtypes::fp6_e3m2_codes, 2 * 8);
  check_codes(formats::fp4_e2m1, ml_dtypes::fp4_e2m1_codes, 2 * 8);
  check_codes(formats::bf16, ml_dtypes::bf16_codes, 2 * 6);
  check_codes(formats::fp16, ml_dtypes::fp16_codes, 2 * 1);
}
