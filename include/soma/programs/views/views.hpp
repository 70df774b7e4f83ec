#pragma once
// Operators that only move elements: transfers and nothing else.

#include <soma/ops/views/views.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/pieces.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

// Adjacent memory as rows of `columns` elements, as words or bytes that no transfer converts.
inline HbmView plain_rows(const HbmView& view, std::size_t columns) {
  return view.as_rows(columns).as(plain_type(view.dtype()));
}

// Copies rows between views of device memory of the same sizes.
inline void copy_rows(Core& core, const HbmView& from, const HbmView& to) {
  const Core::Scope scope(core);
  const std::size_t rows = from.rows(), columns = from.row_elements();
  // Long rows lie across the partitions, short ones one to a partition.
  const std::size_t wide = 4 * piece;
  if (columns >= wide) {
    const ElementTiles elements(columns);
    Pair tiles = elements.pair(core, from.dtype());
    for (std::size_t row = 0; row < rows; ++row)
      elements.for_each([&](std::size_t first, std::size_t part, std::size_t width) {
        const Tile tile = tiles.next(part, width);
        core.dma.load(tile, element_block(from.rows(row, row + 1), first, part, width));
        core.dma.queue(store_queue)
            .store(element_block(to.rows(row, row + 1), first, part, width), tile);
      });
    return;
  }
  if (columns == 0 || rows == 0) return;
  Pair tiles(core, from.dtype(), (std::min)(rows, lanes), columns);
  for_pieces(rows, lanes, [&](std::size_t row, std::size_t count) {
    const Tile tile = tiles.next(count, columns);
    core.dma.load(tile, from.rows(row, row + count));
    core.dma.queue(store_queue).store(to.rows(row, row + count), tile);
  });
}

// Puts the inputs side by side: a row is the part of an output row that comes from one input.
inline void concatenate(Core& core, const OperatorCall& call) {
  const auto dimension = call.attributes.as<std::size_t>();
  const Tensor& y = call.outputs[0];
  std::size_t rows = 1;
  for (std::size_t i = 0; i < dimension; ++i) rows *= y.size(i);
  const HbmView to = plain_rows(flat_target(y), y.elements() / rows);
  std::size_t begin = 0;
  for (const Tensor& input : call.inputs) {
    if (input.elements() == 0) continue;
    const HbmView from = plain_rows(flat_view(row_major(core, input)), input.elements() / rows);
    copy_rows(core, from, to.columns(begin, begin + from.row_elements()));
    begin += from.row_elements();
  }
}

// to = the rows of x with these numbers.
inline void gather_rows(Core& core, const HbmView& x, const Tensor& numbers, const HbmView& to) {
  const std::size_t count = numbers.elements(), width = x.row_elements();
  Pair indices(core, DType::int32, (std::min)(count, lanes), 1);
  Pair tiles(core, x.dtype(), (std::min)(count, lanes), (std::min)(width, piece));
  for_pieces(count, lanes, [&](std::size_t row, std::size_t rows) {
    const Tile index = indices.next(rows, 1);
    core.dma.load(index, hbm(numbers).columns(row, row + 1).with_rows(rows, 1));
    for_pieces(width, piece, [&](std::size_t column, std::size_t columns) {
      const Tile tile = tiles.next(rows, columns);
      core.dma.gather(tile, x.columns(column, column + columns), index);
      core.dma.queue(store_queue)
          .store(to.rows(row, row + rows).columns(column, column + columns), tile);
    });
  });
}

inline void sequence_first(Core& core, const OperatorCall& call) {
  const DeviceRows x(core, call.inputs[0]);
  const Tensor first = soma::detail::first_rows(call.context, call.sequences);
  gather_rows(core, x.view(), first, DeviceRows::target(call.outputs[0]));
}

}  // namespace SOMA_NAMESPACE::programs
