// Scales: how many there are, that scaled elements fit the format, and the rules for powers of two.
#include "catch.hpp"
#include "mismatches.hpp"
#include "samples.hpp"

#include <soma/numeric/codec.hpp>
#include <soma/numeric/formats.hpp>
#include <soma/numeric/scaling.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace soma_test;
using soma::Granularity;
using soma::scale_for;
using soma::ScaleFormat;
using soma::ScalePolicy;
using soma::Scaling;
namespace formats = soma::formats;

namespace {

constexpr FloatFormat scaled_formats[] = {
    formats::fp8_e3m4,     formats::fp8_e4m3,     formats::fp8_e5m2, formats::fp8_e4m3fn,
    formats::fp8_e4m3fnuz, formats::fp8_e5m2fnuz, formats::fp6_e2m3, formats::fp6_e3m2,
    formats::fp4_e2m1,     formats::fp16,         formats::bf16};

Scaling current(ScaleFormat format, int margin = 0) {
  return {.policy = ScalePolicy::current, .format = format, .margin = margin};
}

double largest_of(const FloatFormat& format) {
  const ReferenceCodec reference(format);
  return reference.magnitude(reference.finite_count() - 1);
}

// The largest scale, and the largest that is a power of two, by which the format's largest number
// becomes no infinity.
float largest_scale(const FloatFormat& format) {
  const double largest = largest_of(format);
  std::uint32_t below = 0, above = bits_of(0x1p126f) + 1;
  while (above - below > 1) {
    const std::uint32_t middle = below + (above - below) / 2;
    const double product = static_cast<double>(std::bit_cast<float>(middle)) * largest;
    (product <= 0x1.fffffep127 ? below : above) = middle;
  }
  return std::bit_cast<float>(below);
}
int largest_exponent(const FloatFormat& format) { return std::ilogb(largest_scale(format)); }

float next_above(float value) { return std::bit_cast<float>(bits_of(value) + 1); }
float next_below(float value) { return std::bit_cast<float>(bits_of(value) - 1); }

// Positive finite magnitudes: every exponent with several mantissas, the ends, and random patterns.
std::vector<float> magnitudes() {
  std::vector<float> list = {0x1p-149f, 0x1.fffffep127f, 1.0f, 448.0f, 240.0f, 6.0f};
  Sequence sequence(8);
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent)
    for (const std::uint32_t mantissa :
         {1u, 0x400000u, 0x600000u, 0x7FFFFFu, sequence.bits32() >> 9, sequence.bits32() >> 9})
      list.push_back(std::bit_cast<float>(exponent << 23 | mantissa));
  for (std::uint32_t exponent = 1; exponent < 255; ++exponent)
    list.push_back(std::bit_cast<float>(exponent << 23));
  return list;
}

}  // namespace

TEST_CASE("scaling blocks", "[unit]") {
  const auto is = [](Granularity granularity, std::size_t rows, std::size_t columns) {
    const soma::ScalingBlock g = scaling_block(granularity);
    return g.rows == rows && g.columns == columns;
  };
  CHECK(is(Granularity::tensor, 0, 0));
  CHECK(is(Granularity::row, 1, 0));
  CHECK(is(Granularity::block_1x128, 1, 128));
  CHECK(is(Granularity::block_128x128, 128, 128));
  CHECK(is(Granularity::group_32, 1, 32));
  CHECK(is(Granularity::group_16, 1, 16));
  CHECK(is(Granularity::block_16x16, 16, 16));
  CHECK(is(Granularity::block_32x32, 32, 32));
  CHECK(is_square(Granularity::block_16x16));
  CHECK_FALSE(is_square(Granularity::group_16));
}

TEST_CASE("scale_grid covers every element with whole scaling blocks", "[unit]") {
  struct Case {
    Granularity granularity;
    std::size_t rows, columns, grid_rows, grid_columns;
  };
  constexpr std::size_t huge = std::numeric_limits<std::size_t>::max();
  const Case cases[] = {
      {Granularity::tensor, 5, 300, 1, 1},
      {Granularity::row, 5, 300, 5, 1},
      {Granularity::block_1x128, 5, 300, 5, 3},
      {Granularity::block_1x128, 5, 256, 5, 2},
      {Granularity::block_128x128, 5, 300, 1, 3},
      {Granularity::block_128x128, 129, 127, 2, 1},
      {Granularity::group_32, 2, 33, 2, 2},
      {Granularity::group_32, 2, 32, 2, 1},
      {Granularity::group_32, 1, 1, 1, 1},
      {Granularity::group_32, 1, huge, 1, huge / 32 + 1},
  };
  for (const Case& c : cases) {
    const soma::ScaleGrid grid = soma::scale_grid(c.granularity, c.rows, c.columns);
    INFO(c.rows << " x " << c.columns);
    CHECK(grid.rows == c.grid_rows);
    CHECK(grid.columns == c.grid_columns);
    CHECK(grid.size() == c.grid_rows * c.grid_columns);
  }
  STATIC_REQUIRE(soma::scale_grid(Granularity::tensor, 0, 0).size() == 1);
}

TEST_CASE("a scaling block without nonzero numbers has scale 1, or the least e8m0", "[unit]") {
  CHECK(scale_for(current(ScaleFormat::mx, 3), formats::fp4_e2m1, 0.0f) == 0x1p-127f);
  CHECK(scale_for(current(ScaleFormat::e4m3, 3), formats::fp4_e2m1, 0.0f) == 0x1p-9f);
  for (const ScaleFormat format : {ScaleFormat::fp32, ScaleFormat::power_of_two}) {
    CHECK(scale_for(current(format, 3), formats::fp8_e4m3, 0.0f) == 1.0f);
    CHECK(scale_for(current(format, 3), formats::fp8_e4m3, -0.0f) == 1.0f);
    CHECK(scale_for(current(format), formats::fp8_e4m3, std::numeric_limits<float>::quiet_NaN()) ==
          1.0f);
  }
}

// The wanted scale times the format's largest number is amax * 2^margin. A scale's neighbours'
// midpoints have 25 bits and the largest number at most 11, so both sides of the comparison are
// exact in double.
TEST_CASE("fp32 scales are amax / largest, correctly rounded", "[unit]") {
  Mismatches result;
  for (const FloatFormat& format : scaled_formats)
    for (const int margin : {0, 1, 7, 64}) {
      const double largest = largest_of(format);
      const float most = largest_scale(format);
      for (const float amax : magnitudes()) {
        const float scale = scale_for(current(ScaleFormat::fp32, margin), format, amax);
        const double wanted = std::ldexp(static_cast<double>(amax), margin);
        const double above = (static_cast<double>(scale) + next_above(scale)) / 2 * largest;
        const double below = (static_cast<double>(scale) + next_below(scale)) / 2 * largest;
        const bool nearest = below <= wanted && wanted <= above;
        const bool clamped =
            (scale == 0x1p-126f && wanted < above) || (scale == most && wanted > below);
        result.expect(nearest || clamped, [&](auto& out) {
          out << format << " margin " << margin << std::hexfloat << ": amax " << amax << " scale "
              << scale << std::defaultfloat;
        });
      }
    }
  CHECK_NONE(result);
}

// scale, its inverse and the product are rounded once each: the largest element comes within three
// roundings, below 2^-22, of the largest number. Elements are 2^margin below it where a margin is
// asked for.
TEST_CASE("the largest element scaled by fp32 meets the largest number", "[unit]") {
  Mismatches result;
  for (const FloatFormat& format : scaled_formats)
    for (const int margin : {0, 3}) {
      const double wanted = std::ldexp(largest_of(format), -margin);
      const float most = largest_scale(format);
      for (const float amax : magnitudes()) {
        const float scale = scale_for(current(ScaleFormat::fp32, margin), format, amax);
        if (scale == 0x1p-126f || scale == most) continue;
        const float scaled = amax * (1.0f / scale);
        result.expect(std::fabs(scaled - wanted) <= wanted * 0x1p-22, [&](auto& out) {
          out << format << " margin " << margin << ": amax " << amax << " becomes " << scaled
              << ", wanted " << wanted;
        });
      }
    }
  CHECK_NONE(result);
}

TEST_CASE("power-of-two scales: the smallest power that brings amax into range", "[unit]") {
  Mismatches result;
  for (const FloatFormat& format : scaled_formats)
    for (const int margin : {0, 1, 7, 64}) {
      const double largest = largest_of(format);
      const int most = largest_exponent(format);
      for (const float amax : magnitudes()) {
        int exponent = -300;  // by trying: the rule in words
        while (static_cast<double>(amax) > std::ldexp(largest, exponent)) ++exponent;
        exponent = std::min(std::max(exponent + margin, -126), most);
        const float scale = scale_for(current(ScaleFormat::power_of_two, margin), format, amax);
        result.expect(static_cast<double>(scale) == std::ldexp(1.0, exponent), [&](auto& out) {
          out << format << " margin " << margin << ": amax " << amax << " scale " << scale
              << ", wanted 2^" << exponent;
        });
        result.expect(static_cast<double>(1.0f / scale) == std::ldexp(1.0, -exponent),
                      [&](auto& out) { out << "the inverse of " << scale << " is not exact"; });
      }
    }
  CHECK_NONE(result);
}

// OCP Microscaling 1.0, section 6.3: the shared exponent is floor(log2(amax)) less the exponent of
// the format's largest normal number (table 1: 8 for e4m3, 15 for e5m2, 2 for e2m3, 4 for e3m2, 2
// for e2m1).
TEST_CASE("mx scales follow the published rule", "[unit]") {
  struct Case {
    FloatFormat format;
    int emax;
  };
  constexpr Case cases[] = {{formats::fp8_e4m3fn, 8},
                            {formats::fp8_e5m2, 15},
                            {formats::fp6_e2m3, 2},
                            {formats::fp6_e3m2, 4},
                            {formats::fp4_e2m1, 2}};
  Mismatches result;
  for (const Case& c : cases)
    for (const int margin : {0, 2}) {
      for (const float amax : magnitudes()) {
        const int shared = std::min(std::max(std::ilogb(amax) - c.emax + margin, -127), 127);
        const float scale = scale_for(current(ScaleFormat::mx, margin), c.format, amax);
        result.expect(static_cast<double>(scale) == std::ldexp(1.0, shared), [&](auto& out) {
          out << c.format << ": amax " << amax << " scale " << scale << ", wanted 2^" << shared;
        });
        // The stored form of the scale.
        result.expect(soma::decode(formats::e8m0, soma::encode(formats::e8m0, scale)) == scale,
                      [&](auto& out) { out << "e8m0 of " << scale; });
      }
    }
  CHECK_NONE(result);
  // By this rule the largest element may lie beyond the range: 7 in fp4, whose largest number is 6.
  CHECK(scale_for(current(ScaleFormat::mx), formats::fp4_e2m1, 7.0f) == 1.0f);
  CHECK(scale_for(current(ScaleFormat::power_of_two), formats::fp4_e2m1, 7.0f) == 2.0f);
}

// Scales of mx go on to 2^127: only what rounds up to 2^128 becomes an infinity.
TEST_CASE("every magnitude reads back finite under its scale", "[unit]") {
  Mismatches result;
  for (const FloatFormat& format : scaled_formats)
    for (const ScaleFormat kind : {ScaleFormat::fp32, ScaleFormat::power_of_two, ScaleFormat::mx})
      for (const int margin : {0, 1, 9, 64})
        for (const auto mode : {soma::RoundingMode::nearest_even, soma::RoundingMode::up})
          for (const float amax : magnitudes()) {
            const float scale = scale_for(current(kind, margin), format, amax);
            const std::uint32_t code =
                soma::encode(format.with(soma::Overflow::saturate), amax * (1.0f / scale), {mode});
            const float decoded = soma::decode(format, code), back = decoded * scale;
            const bool beyond = kind == ScaleFormat::mx &&
                                double{decoded} * double{scale} == 0x1p128 && amax > 0x1p127f;
            result.expect(std::isfinite(back) || beyond, [&](auto& out) {
              out << format << " margin " << margin << ": amax " << amax << " by " << scale
                  << " becomes " << back;
            });
          }
  CHECK_NONE(result);
}

TEST_CASE("scales for a format whose largest number is subnormal", "[unit]") {
  // Values 0, 0.25, 0.5, 0.75: one exponent bit, and that is taken by infinity and NaN.
  const FloatFormat format{.exponent_bits = 1, .mantissa_bits = 2, .bias = 1};
  CHECK(scale_for(current(ScaleFormat::power_of_two), format, 1.0f) == 2.0f);
  CHECK(scale_for(current(ScaleFormat::power_of_two), format, 0.75f) == 1.0f);
  CHECK(scale_for(current(ScaleFormat::mx), format, 1.0f) ==
        2.0f);  // floor(log2(1)) - floor(log2(0.75)) = 1
}

TEST_CASE("AmaxHistory remembers as many steps as it was told", "[unit]") {
  Scaling scaling = current(ScaleFormat::power_of_two);
  scaling.policy = ScalePolicy::delayed;
  scaling.history = 3;
  soma::AmaxHistory history(scaling, formats::fp8_e4m3);
  CHECK(history.values().empty());
  CHECK(history.amax() == 0.0f);
  CHECK(history.scale() == 1.0f);
  CHECK_FALSE(history.known());

  history.push(480.0f);
  CHECK(history.known());
  CHECK(history.amax() == 480.0f);
  CHECK(history.scale() == 2.0f);  // 480 / 2 = 240
  history.push(60.0f);
  history.push(0.0f);
  CHECK(history.amax() == 480.0f);
  CHECK(history.values().size() == 3);
  history.push(30.0f);  // 480 is forgotten
  CHECK(history.values().size() == 3);
  CHECK(history.amax() == 60.0f);
  CHECK(history.scale() == 0.25f);
  history.push(1.0f);  // so is 60
  CHECK(history.amax() == 30.0f);
  for (int i = 0; i < 3; ++i) history.push(0.0f);
  CHECK(history.scale() == 1.0f);
  CHECK_FALSE(history.known());
}

TEST_CASE("zeros, NaN and infinities say nothing of a scale", "[unit]") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Scaling scaling = current(ScaleFormat::fp32);
  scaling.history = 4;
  soma::AmaxHistory history(scaling, formats::fp8_e4m3);
  for (const float amax : {0.0f, nan, infinity, -0.0f}) {
    history.push(amax);
    CHECK_FALSE(history.known());
    CHECK(history.amax() == 0);
    CHECK(history.scale() == 1);
  }
  history.push(1e-44f);
  CHECK(history.known());
  CHECK(history.amax() == 1e-44f);
  history.push(240);
  CHECK(history.scale() == 1);
  for (int i = 0; i < 4; ++i) history.push(nan);
  CHECK_FALSE(history.known());
}

TEST_CASE("a history of one step is that step", "[unit]") {
  Scaling scaling = current(ScaleFormat::fp32);
  scaling.history = 1;
  soma::AmaxHistory history(scaling, formats::fp8_e4m3);
  for (const float amax : {480.0f, 240.0f, 120.0f}) {
    history.push(amax);
    CHECK(history.amax() == amax);
    CHECK(history.scale() == amax / 240.0f);
  }
}

#if SOMA_HAS_EXCEPTIONS

TEST_CASE("a scaling out of its ranges is refused by name", "[unit]") {
  struct Case {
    int history, margin;
    const char *argument, *given, *wanted;
  };
  const Case cases[] = {{0, 0, "scaling.history", "0", "1 to 4096"},
                        {-1, 0, "scaling.history", "-1", "1 to 4096"},
                        {4097, 0, "scaling.history", "4097", "1 to 4096"},
                        {16, -1, "scaling.margin", "-1", "0 to 64"},
                        {16, 65, "scaling.margin", "65", "0 to 64"}};
  for (const Case& c : cases) {
    const Scaling scaling{.history = c.history, .margin = c.margin};
    try {
      soma::validate(scaling, "some_operation");
      FAIL("accepted history " << c.history << " margin " << c.margin);
    } catch (const soma::Error& error) {
      CHECK(error.id() == soma::error_id::bad_scaling);
      CHECK(error.id().name == "scaling.invalid");
      CHECK(error.operation() == "some_operation");
      CHECK(error.argument() == c.argument);
      CHECK(error.given() == c.given);
      CHECK(error.wanted() == c.wanted);
    }
    CHECK_THROWS_AS(soma::AmaxHistory(scaling, formats::fp8_e4m3), soma::Error);
  }
  for (const int history : {1, 4096})
    for (const int margin : {0, 64})
      CHECK_NOTHROW(soma::validate(Scaling{.history = history, .margin = margin}, "test"));
  CHECK_THROWS_AS(soma::AmaxHistory(Scaling{}, FloatFormat{.exponent_bits = 0}), soma::Error);
}

#endif
