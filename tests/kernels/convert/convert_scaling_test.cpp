// Scales and amax in convert(), against plain loops over the same definition.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/samples.hpp"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace soma;

namespace {

struct Plain {
  std::vector<std::uint32_t> codes;
  std::vector<float> scales, amax;
};

// The definition, element by element.
Plain plain(const std::vector<float>& values, std::size_t rows, std::size_t columns,
            const FloatFormat& format, const Scaling& scaling, std::vector<float> given) {
  const ScalingBlock g = scaling_block(scaling.granularity);
  const ScaleGrid grid = scale_grid(scaling.granularity, rows, columns);
  const auto block_of = [&](std::size_t row, std::size_t column) {
    return (g.rows == 0 ? 0 : row / g.rows) * grid.columns +
           (g.columns == 0 ? 0 : column / g.columns);
  };
  Plain result;
  result.amax.assign(grid.size(), 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& amax = result.amax[block_of(i / columns, i % columns)];
    if (std::isfinite(values[i])) amax = (std::max)(amax, std::fabs(values[i]));
  }
  result.scales = given;
  if (scaling.policy == ScalePolicy::current) {
    result.scales.clear();
    std::vector<float> counted = result.amax;
    if (has_nan_scales(scaling, format))
      for (std::size_t i = 0; i < values.size(); ++i)
        if (!std::isfinite(values[i]))
          counted[block_of(i / columns, i % columns)] = std::numeric_limits<float>::infinity();
    for (const float amax : counted) result.scales.push_back(scale_for(scaling, format, amax));
  }
  const float limit = decode(format, format.max_finite_code());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float inverse = 1.0f / result.scales[block_of(i / columns, i % columns)];
    float scaled = std::isnan(inverse) ? inverse : values[i] * inverse;
    if (std::isfinite(values[i])) scaled = (std::clamp)(scaled, -limit, limit);
    result.codes.push_back(encode(format, scaled));
  }
  return result;
}

}  // namespace

TEST_CASE("every granularity, scale format and policy equals the plain loop", "[unit]") {
  struct Size {
    std::size_t rows, columns;
  };
  auto context = make_context({.threads = 2});
  for (const Size size :
       {Size{1, 1}, Size{1, 1000}, Size{130, 257}, Size{3, 70001}, Size{260, 128}, Size{64, 1}}) {
    std::vector<float> values = soma_test::hard_floats(size.rows * size.columns);
    if (values.size() > 300)  // a stretch of zeros, so that some scaling blocks have no amax
      std::fill(values.begin() + 128, values.begin() + 128 + 160, 0.0f);
    for (const Granularity granularity :
         {Granularity::tensor, Granularity::row, Granularity::block_1x128,
          Granularity::block_128x128, Granularity::group_32, Granularity::group_16,
          Granularity::block_16x16}) {
      for (const ScaleFormat scale_format :
           {ScaleFormat::fp32, ScaleFormat::power_of_two, ScaleFormat::mx}) {
        for (const ScalePolicy policy : {ScalePolicy::current, ScalePolicy::delayed}) {
          for (const FloatFormat& format :
               {formats::fp8_e4m3fn, formats::fp8_e5m2, formats::fp4_e2m1}) {
            const Scaling scaling{
                .policy = policy, .granularity = granularity, .format = scale_format, .margin = 1};
            const ScaleGrid grid = scale_grid(granularity, size.rows, size.columns);
            std::vector<float> scales(grid.size()), amax(grid.size(), -1.0f);
            for (std::size_t i = 0; i < scales.size(); ++i)
              scales[i] = 0.25f + 0.01f * static_cast<float>(i % 7);
            const Plain expected = plain(values, size.rows, size.columns, format, scaling, scales);
            std::vector<std::byte> codes(values.size());
            const ConstCodeSpan from{formats::fp32, std::as_bytes(std::span(values)).data(),
                                     size.rows, size.columns, 4 * size.columns};
            convert(context, from,
                    CodeSpan{format, codes.data(), size.rows, size.columns, size.columns},
                    {.scaling = scaling, .scales = scales, .amax = amax});
            bool same = true;
            for (std::size_t i = 0; i < codes.size(); ++i)
              same = same && static_cast<std::uint32_t>(codes[i]) == expected.codes[i];
            INFO(size.rows << " x " << size.columns << ", granularity " << int(granularity)
                           << ", scale " << int(scale_format) << ", policy " << int(policy) << ", "
                           << to_string(format));
            REQUIRE(same);
            REQUIRE(std::memcmp(scales.data(), expected.scales.data(),
                                scales.size() * sizeof(float)) == 0);
            REQUIRE(amax == expected.amax);

            // And back: codes times scales.
            std::vector<float> back(values.size());
            convert(context,
                    ConstCodeSpan{format, codes.data(), size.rows, size.columns, size.columns},
                    CodeSpan{formats::fp32, std::as_writable_bytes(std::span(back)).data(),
                             size.rows, size.columns, 4 * size.columns},
                    {.source_granularity = granularity, .source_scales = scales});
            const ScalingBlock g = scaling_block(granularity);
            bool same_back = true;
            for (std::size_t i = 0; i < back.size(); ++i) {
              const std::size_t row = i / size.columns, column = i % size.columns;
              const float scale = scales[(g.rows == 0 ? 0 : row / g.rows) * grid.columns +
                                         (g.columns == 0 ? 0 : column / g.columns)];
              const float wanted = decode(format, static_cast<std::uint32_t>(codes[i])) * scale;
              same_back =
                  same_back && (std::isnan(wanted) ? std::isnan(back[i]) : back[i] == wanted);
            }
            REQUIRE(same_back);
          }
        }
      }
    }
  }
}

TEST_CASE("amax without a scale, in the same pass", "[unit]") {
  auto context = make_context({.threads = 3});
  std::vector<float> values = soma_test::finite_floats(200001);
  for (float& value : values) value = std::fmod(value, 8.0f);
  values[150000] = -9.5f;
  values[7] = std::numeric_limits<float>::infinity();
  values[8] = std::numeric_limits<float>::quiet_NaN();
  std::vector<fp8_e4m3> codes(values.size()), without(values.size());
  std::vector<float> amax{-1};
  convert(context, values, codes, {.amax = amax});
  CHECK(amax[0] == 9.5f);
  convert(context, values, without);
  CHECK(std::memcmp(codes.data(), without.data(), codes.size()) == 0);
}

TEST_CASE("a tensor's scale does not depend on the host's rounding mode", "[unit]") {
  auto context = make_context({.threads = 2});
  std::vector<float> values(100, 0.5f);
  values[3] = 1.1f;  // 1.1 / 448 lies between two floats
  std::vector<fp8_e4m3fn> codes(values.size());
  std::vector<float> scales(1);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    REQUIRE(std::fesetround(mode) == 0);
    convert(context, values, codes,
            {.scaling = {.policy = ScalePolicy::current}, .scales = scales});
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    CHECK(after == mode);
    CHECK(scales[0] == scale_for({.policy = ScalePolicy::current}, formats::fp8_e4m3fn, 1.1f));
  }
}

TEST_CASE("an empty matrix has neutral scales", "[unit]") {
  auto context = make_context();
  std::vector<float> none, scales{5}, amax{5};
  std::vector<bf16> out;
  convert(context, none, out,
          {.scaling = {.policy = ScalePolicy::current}, .scales = scales, .amax = amax});
  CHECK(scales[0] == 1);
  CHECK(amax[0] == 0);
}
