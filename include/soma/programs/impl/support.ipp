#pragma once
// The functions of support.hpp.

#include <soma/programs/support.hpp>

#include <soma/neuroncore/core.hpp>
#include <soma/ops/program.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace SOMA_NAMESPACE::programs {

SOMA_INLINE std::size_t DeviceRows::rows() const { return view_.rows(); }

SOMA_INLINE std::size_t DeviceRows::columns() const { return view_.row_elements(); }

SOMA_INLINE DType DeviceRows::dtype() const { return view_.dtype(); }

SOMA_INLINE HbmView DeviceRows::block(std::size_t row, std::size_t rows, std::size_t column,
                                      std::size_t columns) const {
  return view_.rows(row, row + rows).columns(column, column + columns);
}

SOMA_INLINE HbmView DeviceRows::target(const Tensor& output) { return rows_of(output, true); }

SOMA_INLINE HbmView DeviceRows::rows_of(const Tensor& tensor, bool writable) {
  const Shape& shape = tensor.shape();
  if (tensor.rank() <= 2) return writable ? hbm_target(tensor) : hbm(tensor);
  // The leading dimensions of a regular tensor are one dimension.
  const std::size_t step = tensor.strides()[tensor.rank() - 2];
  Tensor flat = tensor;
  while (flat.rank() > 2) flat = flat.select(0, 0);
  HbmView view = writable ? hbm_target(flat) : hbm(flat);
  return view.with_rows(shape.rows(), step);
}

SOMA_INLINE HbmView flat_view(const Tensor& contiguous) {
  return hbm(contiguous.reshape(Shape{contiguous.elements()}));
}

SOMA_INLINE HbmView flat_target(const Tensor& contiguous) {
  return hbm_target(contiguous.reshape(Shape{contiguous.elements()}));
}

SOMA_INLINE HbmView element_block(const HbmView& view, std::size_t first, std::size_t partitions,
                                  std::size_t columns) {
  return view.flat().columns(first, first + partitions * columns).as_rows(columns);
}

SOMA_INLINE neuroncore::DrawPosition position_of(DropoutArgs args, std::size_t row,
                                                 std::size_t column) {
  soma::detail::shift_draws(args, row, column);
  return {.draw = args.draw,
          .partition_step = args.draw_row_stride,
          .partition_indices = args.row_indices};
}

SOMA_INLINE Pair::Pair(Core& core, DType dtype, std::size_t partitions, std::size_t elements)
    : tiles_{core.sbuf.tile(dtype, partitions, elements),
             core.sbuf.tile(dtype, partitions, elements)} {}

SOMA_INLINE Tile Pair::next(std::size_t partitions, std::size_t elements) {
  turn_ ^= 1;
  return tiles_[turn_].rows(0, partitions).columns(0, elements);
}

}  // namespace SOMA_NAMESPACE::programs
