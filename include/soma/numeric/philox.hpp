#pragma once
// Philox 4x32-10: a counter-based generator. A block of four random words is a pure function of a
// 128-bit counter and a 64-bit key, so any element of any stream can be drawn alone, in any order,
// on any thread. Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC 2011.

#include <soma/base/config.hpp>

#include <array>
#include <cstdint>

namespace SOMA_NAMESPACE {

namespace philox {

inline constexpr std::uint32_t multiplier_0 = 0xD2511F53;
inline constexpr std::uint32_t multiplier_1 = 0xCD9E8D57;
inline constexpr std::uint32_t weyl_0 = 0x9E3779B9;  // golden ratio
inline constexpr std::uint32_t weyl_1 = 0xBB67AE85;  // sqrt(3) - 1
inline constexpr int rounds = 10;

}  // namespace philox

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < philox::rounds; ++round) {
    const std::uint64_t product_0 = std::uint64_t{philox::multiplier_0} * counter[0];
    const std::uint64_t product_1 = std::uint64_t{philox::multiplier_1} * counter[2];
    counter = {static_cast<std::uint32_t>(product_1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product_1),
               static_cast<std::uint32_t>(product_0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product_0)};
    key[0] += philox::weyl_0;
    key[1] += philox::weyl_1;
  }
  return counter;
}

}  // namespace SOMA_NAMESPACE
