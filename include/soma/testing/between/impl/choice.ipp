#pragma once
// The functions of choice.hpp.

#include <soma/testing/between/choice.hpp>

#include <soma/numeric/draw.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::testing::detail {

SOMA_INLINE std::uint32_t Choice::word() {
  const std::uint32_t word = random_word(draw_);
  ++draw_.index;
  return word;
}

SOMA_INLINE std::size_t Choice::below(std::size_t count) {
  return static_cast<std::size_t>(std::uint64_t{word()} * count >> 32);
}

SOMA_INLINE bool Choice::chance(unsigned percent) { return below(100) < percent; }

SOMA_INLINE std::size_t pair_walk(std::size_t count, std::uint64_t index) {
  index %= std::uint64_t{count} * count;
  // Symbol i, then i with each later symbol: 0 01 02 ... 1 12 13 ... (a de Bruijn sequence).
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t length = 2 * (count - i) - 1;
    if (index < length) return index % 2 == 0 ? i + static_cast<std::size_t>(index / 2) : i;
    index -= length;
  }
  return 0;
}

}  // namespace SOMA_NAMESPACE::testing::detail
