#pragma once
// Adds gradients, in place in device memory.

#include <soma/ops/optimizer/accumulate.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/pieces.hpp>
#include <soma/programs/rows/rows_of_numbers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::programs {

inline void accumulate(Core& core, const OperatorCall& call) {
  const Tensor& total = call.inputs[0];
  const Tensor more = row_major(core, call.inputs[1]);
  const HbmView old = flat_view(total), from = flat_view(more), to = flat_target(total);
  const ElementTiles elements(total.elements());
  Pair totals = elements.pair(core, total.dtype()), others = elements.pair(core, more.dtype());
  Pair sums = elements.pair(core, total.dtype());
  elements.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
    const Tile a = totals.next(rows, columns), b = others.next(rows, columns);
    const Tile sum = sums.next(rows, columns);
    core.dma.load(a, element_block(old, first, rows, columns))
        .load(b, element_block(from, first, rows, columns));
    core.vector.tensor_tensor(sum, a, b, Alu::add);
    core.dma.queue(store_queue).store(element_block(to, first, rows, columns), sum);
  });
}

// Rows are distinct, so each row of the scatter is added to another row.
inline void accumulate_rows(Core& core, const OperatorCall& call) {
  const Tensor& total = call.inputs[0];
  const HostNumbers numbers(core, call.inputs[2]);
  const HostNumbers total_rows(core, soma::detail::input_or_none(call.inputs, 3));
  const std::size_t count = numbers.tensor().elements();
  const Tensor positions = Tensor::empty(call.context, Shape{count}, DType::int32);
  soma::detail::for_each_row_pair(
      total, numbers.tensor(), total_rows.tensor(), [&](std::size_t i, std::size_t row) {
        positions.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(row);
      });
  const std::size_t columns = count == 0 ? 0 : total.elements() / total.size(0);
  if (columns == 0) return;
  const Tensor values = row_major(core, call.inputs[1]);
  const HbmView from = flat_view(values).as_rows(columns), to = flat_target(total).as_rows(columns);
  NumberColumns rows(core, positions);
  Pair tiles(core, values.dtype(), (std::min)(count, lanes), (std::min)(columns, piece));
  for_pieces(count, lanes, [&](std::size_t row, std::size_t height) {
    const Tile position = rows.next(row, height);
    for_pieces(columns, piece, [&](std::size_t column, std::size_t width) {
      const Tile tile = tiles.next(height, width);
      core.dma.load(tile, from.rows(row, row + height).columns(column, column + width));
      core.dma.queue(store_queue)
          .scatter(to.columns(column, column + width), tile, position, neuroncore::Scatter::add);
    });
  });
}

}  // namespace SOMA_NAMESPACE::programs
