#pragma once
// The functions of draw_sequence.hpp.

#include <soma/numeric/draw_sequence.hpp>

#include <soma/numeric/draw.hpp>

#include <cstdint>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::uint32_t DrawSequence::word() {
  const std::uint64_t index = draw_.index++;
  if (index / 4 != block_) {
    block_ = index / 4;
    words_ = random_block(draw_, block_);
  }
  return words_[index % 4];
}

SOMA_INLINE std::uint32_t DrawSequence::below(std::uint32_t bound) {
  if (bound == 0) return word();
  std::uint64_t product = std::uint64_t{word()} * bound;
  if (static_cast<std::uint32_t>(product) < bound) {
    const std::uint32_t uneven = (0 - bound) % bound;  // 2^32 modulo bound
    while (static_cast<std::uint32_t>(product) < uneven) product = std::uint64_t{word()} * bound;
  }
  return static_cast<std::uint32_t>(product >> 32);
}

SOMA_INLINE double DrawSequence::unit() { return static_cast<double>(word()) * 0x1p-32; }

}  // namespace SOMA_NAMESPACE
