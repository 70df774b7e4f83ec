// Inputs that find mistakes in conversions, and a hash to compare many results by.
#pragma once

#include <soma/numeric/draw.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace soma_test {

// `count` floats: first the special ones of both signs, then random bit patterns (so all exponents,
// NaN and infinity among them), every other one near 1, where narrow formats have their numbers.
inline std::vector<float> hard_floats(std::size_t count, std::uint64_t seed = 1) {
  std::vector<float> values;
  for (const std::uint32_t magnitude :
       {0x00000000u, 0x00000001u, 0x00000002u, 0x00400000u, 0x007FFFFFu, 0x00800000u,
        0x33800000u, 0x3F800000u, 0x3F800001u, 0x3F808000u, 0x3F818000u, 0x43700000u,
        0x43780000u, 0x43E80000u, 0x477FE000u, 0x477FF000u, 0x7F7F7FFFu, 0x7F7F8000u,
        0x7F7FFFFFu, 0x7F800000u, 0x7F800001u, 0x7FC00000u, 0x7F9FFFFFu, 0x7FFFFFFFu})
    for (const std::uint32_t sign : {0u, 0x80000000u})
      if (values.size() < count) values.push_back(std::bit_cast<float>(magnitude | sign));
  const soma::Draw draw{.seed = seed, .stream = 0x5A5A};
  while (values.size() < count) {
    std::uint32_t bits = soma::random_word(draw, values.size());
    if (values.size() % 2 == 0) bits = (bits & 0x87FFFFFFu) | 0x38000000u;  // 2^-15 to 2
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

// Finite values around 1 with a few zeros and subnormals, for whatever computes with them.
inline std::vector<float> finite_floats(std::size_t count, std::uint64_t seed = 1) {
  std::vector<float> values = hard_floats(count, seed);
  for (float& value : values) {
    auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7F800000u) == 0x7F800000u) bits &= 0xBFFFFFFFu;
    value = std::bit_cast<float>(bits);
  }
  return values;
}

// FNV-1a, 64 bits.
inline std::uint64_t hash(std::span<const std::byte> bytes,
                          std::uint64_t start = 0xCBF29CE484222325u) {
  std::uint64_t state = start;
  for (const std::byte byte : bytes)
    state = (state ^ static_cast<std::uint8_t>(byte)) * 0x100000001B3u;
  return state;
}

}  // namespace soma_test
