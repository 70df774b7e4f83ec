#pragma once
// Tools of programs: the cut of rows, columns and elements into tiles, and alternating buffers, so
// that a transfer can fill one buffer while the engines work on another.

#include <soma/neuroncore/core.hpp>
#include <soma/ops/program.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace SOMA_NAMESPACE::programs {

using neuroncore::Alu;
using neuroncore::Core;
using neuroncore::Function;
using neuroncore::hbm;
using neuroncore::hbm_target;
using neuroncore::HbmView;
using neuroncore::Tile;

inline constexpr std::size_t lanes = 128;  // partitions of a tile that is full
// The elements per partition of a piece of a long row: transfers of 2 KiB a partition and more
// reach most of the bandwidth, and eight tiles of fp32 take a third of SBUF.
inline constexpr std::size_t piece = 2048;

// ---- cutting

// call(begin, size) for pieces of at most `most`.
template <class Call>
void for_pieces(std::size_t count, std::size_t most, const Call& call) {
  for (std::size_t begin = 0; begin < count; begin += most)
    call(begin, (std::min)(most, count - begin));
}

// Elements first and following of a contiguous tensor as [partitions, columns].
HbmView element_block(const HbmView& view, std::size_t first, std::size_t partitions,
                      std::size_t columns);

// The words of a block of a matrix, from (row, column) on.
neuroncore::DrawPosition position_of(DropoutArgs args, std::size_t row, std::size_t column);

// ---- buffers that take turns

// Two tiles; next() returns the tile that it did not return last.
class Pair {
 public:
  Pair(Core& core, DType dtype, std::size_t partitions, std::size_t elements);
  // The first `partitions` x `elements` of the tile.
  Tile next(std::size_t partitions, std::size_t elements);

 private:
  Tile tiles_[2];
  std::size_t turn_ = 0;
};

// Adjacent elements as rows of equal length that fill the partitions, followed by the rest as one
// shorter row.
class ElementTiles {
 public:
  explicit ElementTiles(std::size_t count);

  // call(first, partitions, elements a partition)
  template <class Call>
  void for_each(const Call& call) const {
    const std::size_t rows = count_ / width_;
    for_pieces(rows, lanes,
               [&](std::size_t row, std::size_t size) { call(row * width_, size, width_); });
    if (count_ % width_ != 0) call(rows * width_, std::size_t{1}, count_ % width_);
  }
  std::size_t partitions() const;
  std::size_t width() const { return width_; }
  Pair pair(Core& core, DType dtype) const;

 private:
  // A transfer of less than 256 bytes a partition costs as much as one of 256.
  static constexpr std::size_t one_row = 512, shortest = 64;
  std::size_t count_, width_;
};

// Loads and stores use separate queues, so that a store does not delay the next load.
inline constexpr std::size_t store_queue = 1;

}  // namespace SOMA_NAMESPACE::programs

#ifndef SOMA_DISPATCH
#include <soma/programs/impl/support.ipp>
#endif
