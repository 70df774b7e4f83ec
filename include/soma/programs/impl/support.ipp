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

SOMA_INLINE HbmView DeviceRows::target(const Tensor& output) {
  if (output.rank() < 2) return hbm_target(output);
  return hbm_target(output.reshape(Shape{output.shape().rows(), output.shape().columns()}));
}

SOMA_INLINE HbmView DeviceRows::view_of(const soma::detail::TensorRows& rows) {
  const Tensor& tensor = rows.tensor();
  if (tensor.rank() < 2) return hbm(tensor);
  if (tensor.elements() == 0) return hbm(tensor.reshape(Shape{rows.rows(), rows.columns()}));
  Tensor first = tensor;
  while (first.rank() > 0) first = first.select(0, 0);
  return hbm(first)
      .with_rows(rows.columns(), rows.column_stride())
      .swap(0, 1)
      .with_rows(rows.rows(), rows.row_stride());
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
