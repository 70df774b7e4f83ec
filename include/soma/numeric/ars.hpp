#pragma once
// ARS 4x32-5: a counter-based generator, as Philox is one (numeric/philox.hpp), of five rounds of
// AES with keys that are sums instead of AES's own. Most processors have a round as an instruction
// (simd/ars-inl.hpp); here it is in tables, for all others. Five rounds are the fewest that pass
// BigCrush. Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC 2011; the round is that of FIPS 197. Not for secrets.

#include <soma/base/config.hpp>
#include <soma/numeric/philox.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

using ArsCounter = PhiloxCounter;
using ArsKey = std::array<std::uint32_t, 4>;

namespace ars {

inline constexpr std::uint64_t weyl_low = 0x9E3779B97F4A7C15;   // golden ratio
inline constexpr std::uint64_t weyl_high = 0xBB67AE8584CAA73B;  // sqrt(3) - 1
inline constexpr int rounds = 5;

// Table entry of a byte: the column of the state that SubBytes and MixColumns make of a first byte,
// in little-endian order: S times 2, 1, 1 and 3, in the field of 2^8 elements whose
// polynomial is x^8 + x^4 + x^3 + x + 1.
using ColumnTable = std::array<std::uint32_t, 256>;
constexpr ColumnTable make_columns() {
  const auto twice = [](std::uint32_t x) { return (x << 1) ^ ((x >> 7) * 0x11Bu); };
  std::array<std::uint8_t, 256> power{}, logarithm{};  // of 3, which generates all but zero
  std::uint32_t x = 1;
  for (std::uint32_t i = 0; i < 255; ++i, x ^= twice(x)) {
    power[i] = static_cast<std::uint8_t>(x);
    logarithm[x] = static_cast<std::uint8_t>(i);
  }
  ColumnTable columns{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::uint8_t inverse =
        byte == 0 ? std::uint8_t{0} : power[(255u - logarithm[byte]) % 255];
    std::uint32_t s = 0x63u ^ std::uint32_t{inverse};
    for (int turn = 1; turn <= 4; ++turn) s ^= std::uint32_t{std::rotl(inverse, turn)};
    columns[byte] = twice(s) | s << 8 | s << 16 | (s ^ twice(s)) << 24;
  }
  return columns;
}
inline constexpr ColumnTable columns = make_columns();

// SubBytes, ShiftRows, MixColumns and the addition of the key, as the instructions do it.
constexpr ArsCounter round(const ArsCounter& state, const ArsKey& key) {
  const auto of = [&](std::size_t column, int shift) {
    return std::rotl(columns[state[column % 4] >> shift & 0xFF], shift);
  };
  ArsCounter next{};
  for (std::size_t c = 0; c < 4; ++c)
    next[c] = of(c, 0) ^ of(c + 1, 8) ^ of(c + 2, 16) ^ of(c + 3, 24) ^ key[c];
  return next;
}
// The last one, without MixColumns: the table's second byte is S itself.
constexpr ArsCounter last_round(const ArsCounter& state, const ArsKey& key) {
  const auto of = [&](std::size_t column, int shift) {
    return (columns[state[column % 4] >> shift & 0xFF] >> 8 & 0xFF) << shift;
  };
  ArsCounter next{};
  for (std::size_t c = 0; c < 4; ++c)
    next[c] = (of(c, 0) | of(c + 1, 8) | of(c + 2, 16) | of(c + 3, 24)) ^ key[c];
  return next;
}

// The key of the next round.
constexpr void advance(ArsKey& key) {
  const auto add = [&key](std::size_t at, std::uint64_t number) {
    const std::uint64_t sum = (std::uint64_t{key[at + 1]} << 32 | key[at]) + number;
    key[at] = static_cast<std::uint32_t>(sum);
    key[at + 1] = static_cast<std::uint32_t>(sum >> 32);
  };
  add(0, weyl_low);
  add(2, weyl_high);
}

// Known answers are published for 7 and 10 rounds.
constexpr ArsCounter block(ArsCounter counter, ArsKey key, int how_many) {
  for (std::size_t word = 0; word < 4; ++word) counter[word] ^= key[word];
  for (int i = 1; i < how_many; ++i) {
    advance(key);
    counter = round(counter, key);
  }
  advance(key);
  return last_round(counter, key);
}

}  // namespace ars

constexpr ArsCounter ars4x32_5(const ArsCounter& counter, const ArsKey& key) {
  return ars::block(counter, key, ars::rounds);
}

}  // namespace SOMA_NAMESPACE
