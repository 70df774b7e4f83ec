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

namespace soma::programs {

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

// All dimensions but the last are rows.
class DeviceRows {
 public:
  DeviceRows(Context& context, const Tensor& tensor)
      : tensor_(detail::regular(context, tensor)), view_(rows_of(tensor_, false)) {}
  const HbmView& view() const { return view_; }
  std::size_t rows() const { return view_.rows(); }
  std::size_t columns() const { return view_.row_elements(); }
  DType dtype() const { return view_.dtype(); }
  // A block of the rows.
  HbmView block(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) const {
    return view_.rows(row, row + rows).columns(column, column + columns);
  }
  static HbmView target(const Tensor& output) { return rows_of(output, true); }

 private:
  static HbmView rows_of(const Tensor& tensor, bool writable) {
    const Shape& shape = tensor.shape();
    if (tensor.rank() <= 2) return writable ? hbm_target(tensor) : hbm(tensor);
    // The leading dimensions of a regular tensor are one dimension.
    const std::size_t step = tensor.strides()[tensor.rank() - 2];
    Tensor flat = tensor;
    while (flat.rank() > 2) flat = flat.select(0, 0);
    HbmView view = writable ? hbm_target(flat) : hbm(flat);
    return view.with_rows(shape.rows(), step);
  }
  Tensor tensor_;
  HbmView view_;
};

// A contiguous tensor as one row.
inline HbmView flat_view(const Tensor& contiguous) {
  return hbm(contiguous.reshape(Shape{contiguous.elements()}));
}
inline HbmView flat_target(const Tensor& contiguous) {
  return hbm_target(contiguous.reshape(Shape{contiguous.elements()}));
}

// ---- cutting

// call(begin, size) for pieces of at most `most`.
template <class Call>
void for_pieces(std::size_t count, std::size_t most, const Call& call) {
  for (std::size_t begin = 0; begin < count; begin += most)
    call(begin, (std::min)(most, count - begin));
}

// Elements first and following of a contiguous tensor as [partitions, columns].
inline HbmView element_block(const HbmView& view, std::size_t first, std::size_t partitions,
                             std::size_t columns) {
  return view.flat().columns(first, first + partitions * columns).as_rows(columns);
}

// The words of a block of a matrix, from (row, column) on.
inline neuroncore::Place place_of(DropoutArgs args, std::size_t row, std::size_t column) {
  soma::detail::shift_draws(args, row, column);
  return {.draw = args.draw,
          .partition_step = args.draw_row_stride,
          .partition_indices = args.row_indices};
}

// ---- buffers that take turns

// Two tiles; next() returns the tile that it did not return last.
class Pair {
 public:
  Pair(Core& core, DType dtype, std::size_t partitions, std::size_t elements)
      : tiles_{core.sbuf.tile(dtype, partitions, elements),
               core.sbuf.tile(dtype, partitions, elements)} {}
  // The first `partitions` x `elements` of the tile.
  Tile next(std::size_t partitions, std::size_t elements) {
    turn_ ^= 1;
    return tiles_[turn_].rows(0, partitions).columns(0, elements);
  }

 private:
  Tile tiles_[2];
  std::size_t turn_ = 0;
};

// Loads and stores use separate queues, so that a store does not delay the next load.
inline constexpr std::size_t store_queue = 1;

}  // namespace soma::programs
