// Numbers and quantizers of the tests of scales for groups.
#pragma once

#include <soma/numeric/draw.hpp>
#include <soma/numeric/quantizer.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace soma_test {

using namespace soma;

inline std::uint32_t word_of(std::uint32_t stream, std::size_t i) {
  return random_word({.seed = 77, .stream = stream}, i);
}
inline double uniform(std::uint32_t stream, std::size_t i) {
  return (word_of(stream, i) + 0.5) * 0x1p-32;
}
inline double normal(std::uint32_t stream, std::size_t i) {
  return std::sqrt(-2 * std::log(uniform(stream, 2 * i))) *
         std::cos(6.283185307179586 * uniform(stream, 2 * i + 1));
}

inline Quantizer groups(const FloatFormat& format, ScaleRule rule,
                        Granularity granularity = Granularity::group_32) {
  return {.format = format,
          .scaling = {.policy = ScalePolicy::current,
                      .granularity = granularity,
                      .format = ScaleFormat::mx,
                      .rule = rule}};
}

inline Quantizer nvfp4(Granularity granularity = Granularity::group_16) {
  return {
      .format = formats::fp4_e2m1,
      .scaling = {
          .policy = ScalePolicy::current, .granularity = granularity, .format = ScaleFormat::e4m3}};
}

inline constexpr std::array<std::uint8_t, 4> rotation_sizes{16, 32, 64, 128};

}  // namespace soma_test
