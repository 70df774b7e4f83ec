#pragma once
// DrawSequence: the words of one stream of draws in order, for sequential work such as a
// permutation or a made-up text. Two sequences that start at the same Draw give the same words.

#include <soma/numeric/draw.hpp>

#include <cstdint>

namespace SOMA_NAMESPACE {

class DrawSequence {
 public:
  // Begins with word draw.index.
  explicit DrawSequence(const Draw& draw) : draw_(draw) {}

  std::uint32_t word();

  // A number from 0 to bound - 1, all equally likely; bound 0 stands for 2^32. Takes one word,
  // rarely more: words that would favour some numbers are skipped. Method: Lemire, "Fast Random
  // Integer Generation in an Interval", 2019.
  std::uint32_t below(std::uint32_t bound);

  // A number in [0, 1), in steps of 2^-32.
  double unit();

  // The index of the next word.
  std::uint64_t index() const { return draw_.index; }

 private:
  Draw draw_;
  std::uint64_t block_ = ~std::uint64_t{0};  // no block has that number
  PhiloxCounter words_{};
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/numeric/impl/draw_sequence.ipp>
#endif
