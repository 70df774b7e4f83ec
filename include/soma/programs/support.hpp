#pragma once
// Tools of programs: tensors as rows in device memory, the cut of rows and columns into tiles, and
// alternating buffers, so that a transfer can fill one buffer while the engines work on another.

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

// ---- tensors in device memory. If a tensor's leading dimensions have no regular stride, the
// tensor is copied first, as the compiler would do.

// All dimensions but the last are rows (TensorRows).
class DeviceRows {
 public:
  DeviceRows(Context& context, const Tensor& tensor)
      : rows_(soma::detail::rows_of(context, tensor)), view_(view_of(rows_)) {}
  const HbmView& view() const { return view_; }
  std::size_t rows() const;
  std::size_t columns() const;
  DType dtype() const;
  // A block of the rows.
  HbmView block(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) const;
  // An output, row-major.
  static HbmView target(const Tensor& output);

 private:
  static HbmView view_of(const soma::detail::TensorRows& rows);
  soma::detail::TensorRows rows_;
  HbmView view_;
};

// A contiguous tensor as one row.
HbmView flat_view(const Tensor& contiguous);
HbmView flat_target(const Tensor& contiguous);

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

// Loads and stores use separate queues, so that a store does not delay the next load.
inline constexpr std::size_t store_queue = 1;

}  // namespace SOMA_NAMESPACE::programs

#ifndef SOMA_DISPATCH
#include <soma/programs/impl/support.ipp>
#endif
