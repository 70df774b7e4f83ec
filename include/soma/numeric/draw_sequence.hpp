#pragma once
// DrawSequence: the words of one stream of draws in order, for sequential work such as a
// permutation or a made-up text. Two sequences that start at the same Draw give the same words.

#include <soma/numeric/draw.hpp>

#include <cstdint>

namespace soma {

class DrawSequence {
 public:
  // Begins with word draw.index.
  explicit DrawSequence(const Draw& draw) : draw_(draw) {}

  std::uint32_t word() {
    const std::uint64_t index = draw_.index++;
    if (index / 4 != block_) {
      block_ = index / 4;
      words_ = random_block(draw_, block_);
    }
    return words_[index % 4];
  }

  // A number from 0 to bound - 1, all equally likely; bound 0 stands for 2^32. Takes one word,
  // rarely more: words that would favour some numbers are skipped. Method: Lemire, "Fast Random
  // Integer Generation in an Interval", 2019.
  std::uint32_t below(std::uint32_t bound) {
    if (bound == 0) return word();
    std::uint64_t product = std::uint64_t{word()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t uneven = (0 - bound) % bound;  // 2^32 modulo bound
      while (static_cast<std::uint32_t>(product) < uneven) product = std::uint64_t{word()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  // A number in [0, 1), in steps of 2^-32.
  double unit() { return static_cast<double>(word()) * 0x1p-32; }

  // The index of the next word.
  std::uint64_t index() const { return draw_.index; }

 private:
  Draw draw_;
  std::uint64_t block_ = ~std::uint64_t{0};  // no block has that number
  PhiloxCounter words_{};
};

}  // namespace soma
