// The ready-made formats: their extremes as published, their names, and errors about formats from
// outside.
#include "catch.hpp"

#include <soma/numeric/codec.hpp>
#include <soma/numeric/formats.hpp>

#include <set>
#include <sstream>
#include <string>

using soma::FloatFormat;
using soma::Overflow;
using soma::Specials;
using soma::Subnormals;
using soma_test::contains;
namespace formats = soma::formats;

TEST_CASE("largest, smallest normal and smallest numbers are the published ones", "[unit]") {
  struct Extremes {
    FloatFormat format;
    float largest, smallest_normal, smallest;
  };
  constexpr Extremes table[] = {
      {formats::fp32, 0x1.fffffep127f, 0x1p-126f, 0x1p-149f},
      {formats::tf32, 0x1.ffcp127f, 0x1p-126f, 0x1p-136f},
      {formats::fp16, 65504.0f, 0x1p-14f, 0x1p-24f},
      {formats::bf16, 0x1.fep127f, 0x1p-126f, 0x1p-133f},
      {formats::fp8_e3m4, 15.5f, 0x1p-2f, 0x1p-6f},
      {formats::fp8_e4m3, 240.0f, 0x1p-6f, 0x1p-9f},
      {formats::fp8_e5m2, 57344.0f, 0x1p-14f, 0x1p-16f},
      {formats::fp8_e4m3fn, 448.0f, 0x1p-6f, 0x1p-9f},
      {formats::fp8_e4m3fnuz, 240.0f, 0x1p-7f, 0x1p-10f},
      {formats::fp8_e5m2fnuz, 57344.0f, 0x1p-15f, 0x1p-17f},
      {formats::e8m0, 0x1p127f, 0x1p-127f, 0x1p-127f},
      {formats::fp6_e2m3, 7.5f, 1.0f, 0.125f},
      {formats::fp6_e3m2, 28.0f, 0.25f, 0.0625f},
      {formats::fp4_e2m1, 6.0f, 1.0f, 0.5f},
  };
  CHECK(std::size(table) == soma::named_formats.size());
  for (const Extremes& row : table) {
    const FloatFormat& f = row.format;
    INFO(f);
    CHECK(soma::decode(f, f.max_finite_code()) == row.largest);
    CHECK(soma::decode(f, f.has_zero() ? 1u << f.mantissa_bits : 0) == row.smallest_normal);
    CHECK(soma::decode(f, f.min_positive_code()) == row.smallest);
  }
}

TEST_CASE("cFP8 code counts are the published ones", "[unit]") {
  struct Counts {
    FloatFormat format;
    int finite, nan;
  };
  for (const auto& [format, finite, nan] : {Counts{formats::fp8_e3m4, 224, 30},
                                            {formats::fp8_e4m3, 240, 14},
                                            {formats::fp8_e5m2, 248, 6}}) {
    int finite_seen = 0, nan_seen = 0;
    for (std::uint32_t code = 0; code < 256; ++code) {
      const float value = soma::decode(format, code);
      finite_seen += value - value == 0;
      nan_seen += value != value;
    }
    INFO(format);
    CHECK(finite_seen == finite);
    CHECK(nan_seen == nan);
  }
}

TEST_CASE("every ready-made format is possible, has one name, and is found by it", "[unit]") {
  std::set<std::string> names;
  for (const auto& [name, format] : soma::named_formats) {
    INFO(name);
    CHECK(format.problem() == nullptr);
    CHECK(names.insert(std::string(name)).second);
    CHECK(soma::find_format(name) == format);
    CHECK(&soma::validate(format, "test") == &format);
    CHECK(soma::to_string(format) == name);
  }
}

TEST_CASE("to_string spells out what is not ready-made", "[unit]") {
  CHECK(to_string(formats::fp8_e4m3.with(Overflow::saturate)) == "fp8_e4m3 saturate");
  CHECK(to_string(formats::fp8_e4m3.with(Overflow::infinity)) == "fp8_e4m3 overflow-to-infinity");
  CHECK(to_string(formats::fp8_e4m3.with(Overflow::nan)) == "fp8_e4m3 overflow-to-nan");
  CHECK(to_string(formats::fp8_e4m3.with_bias(9)) == "1-4-3 bias 9 ieee");
  CHECK(to_string(FloatFormat{
            .exponent_bits = 3, .mantissa_bits = 4, .bias = -3, .specials = Specials::none}) ==
        "1-3-4 bias -3 finite");
  CHECK(to_string(FloatFormat{.exponent_bits = 5,
                              .mantissa_bits = 3,
                              .bias = 15,
                              .specials = Specials::nan_all_ones,
                              .is_signed = false,
                              .subnormals = Subnormals::flushed,
                              .overflow = Overflow::saturate}) ==
        "0-5-3 bias 15 nan-all-ones subnormals-flushed saturate");
  CHECK(to_string(formats::e8m0.with_bias(120)) == "0-8-0 bias 120 nan-all-ones no-zero");
  CHECK(to_string(formats::fp8_e4m3fnuz.with_bias(7)) == "1-4-3 bias 7 nan-negative-zero");
}

TEST_CASE("a format streams as its name", "[unit]") {
  std::ostringstream out;
  out << formats::bf16 << ", " << formats::bf16.with_bias(125);
  CHECK(out.str() == "bf16, 1-8-7 bias 125 ieee");
}

#if SOMA_HAS_EXCEPTIONS

TEST_CASE("find_format names what was asked for and what there is", "[unit]") {
  for (const std::string name : {"bfloat16", "", "BF16", "bf16 ", "fp8"}) {
    try {
      soma::find_format(name);
      FAIL("accepted \"" << name << "\"");
    } catch (const soma::Error& error) {
      CHECK(error.id() == soma::error_id::unknown_format);
      CHECK(error.id().name == "format.unknown_name");
      CHECK(error.operation() == "find_format");
      CHECK(error.argument() == "name");
      CHECK(error.given() == "\"" + name + "\"");
      for (const auto& known : soma::named_formats)
        CHECK_THAT(error.wanted() + " ", contains((" " + std::string(known.name) + " ").c_str()));
    }
  }
}

TEST_CASE("validate names the operation, the record and what it lacks", "[unit]") {
  try {
    soma::validate(FloatFormat{.exponent_bits = 4, .mantissa_bits = 0, .bias = 7},
                   "some_operation");
    FAIL("accepted");
  } catch (const soma::Error& error) {
    CHECK(error.id() == soma::error_id::impossible_format);
    CHECK(std::string(error.what()) ==
          "some_operation: format is 1-4-0 bias 7 ieee, wanted a mantissa bit, to tell NaN from "
          "infinity "
          "(Specials::ieee) [format.impossible]");
  }
  // Fields far out of range are reported, not computed with.
  CHECK_THROWS_AS(soma::validate(FloatFormat{.exponent_bits = -2000000000}, "test"), soma::Error);
  CHECK_THROWS_AS(soma::validate(FloatFormat{.mantissa_bits = 2000000000}, "test"), soma::Error);
  CHECK_THROWS_AS(soma::validate(FloatFormat{.bias = 2000000000}, "test"), soma::Error);
}

#endif
