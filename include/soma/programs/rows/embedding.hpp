#pragma once
// Rows of a table that ids choose: DMA gathers them, 128 at a time. For the gradient, DMA gathers
// rows of dy and adds them to the rows of the result.

#include <soma/ops/rows/embedding.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/rows/rows_of_numbers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace SOMA_NAMESPACE::programs {

inline void embedding(Core& core, const OperatorCall& call) {
  const Tensor ids = row_major(core, call.inputs[1]);
  soma::detail::check_ids(call.inputs[0], HostNumbers(core, call.inputs[1]).tensor());
  const DeviceRows table(core, call.inputs[0]);
  const HbmView y = DeviceRows::target(call.outputs[0]);
  const std::size_t rows = (std::min)(ids.elements(), lanes),
                    columns = (std::min)(table.columns(), piece);
  NumberColumns numbers(core, ids);
  Pair tiles(core, table.dtype(), rows, columns);
  for_pieces(ids.elements(), lanes, [&](std::size_t row, std::size_t count) {
    const Tile number = numbers.next(row, count);
    for_pieces(table.columns(), piece, [&](std::size_t column, std::size_t width) {
      const Tile tile = tiles.next(count, width);
      core.dma.gather(tile, table.view().columns(column, column + width), number);
      core.dma.queue(store_queue)
          .store(y.rows(row, row + count).columns(column, column + width), tile);
    });
  });
}

// The scatter adds the rows of one id in fp32, in ascending order.
inline void embedding_backward(Core& core, const OperatorCall& call) {
  const Tensor& list = call.inputs[1];
  const HostNumbers starts(core, call.inputs[2]);
  soma::detail::check_occurrences(HostNumbers(core, list).tensor(), starts.tensor());
  const DeviceRows dy(core, call.inputs[0]);
  const HbmView sums = DeviceRows::target(call.outputs[0]);
  const std::size_t ids = sums.rows(), columns = sums.row_elements();
  // The id that each entry of the list belongs to; entries before the first bound belong to none.
  const std::span<const std::int64_t> bounds = starts.numbers<std::int64_t>();
  const auto first = static_cast<std::size_t>(bounds[0]),
             last = static_cast<std::size_t>(bounds[ids]);
  const Tensor owners = Tensor::empty(call.context, Shape{list.elements()}, DType::int32);
  for (std::size_t id = 0; id < ids; ++id)
    std::fill(owners.mutable_data<std::int32_t>() + bounds[id],
              owners.mutable_data<std::int32_t>() + bounds[id + 1], static_cast<std::int32_t>(id));
  const std::size_t width_most = (std::min)(columns, piece);
  {
    const Tile zeros = core.sbuf.tile(DType::fp32, (std::min)(ids, lanes), width_most);
    core.vector.memset(zeros, 0);
    for_pieces(ids, lanes, [&](std::size_t row, std::size_t count) {
      for_pieces(columns, piece, [&](std::size_t column, std::size_t width) {
        core.dma.queue(store_queue)
            .store(sums.rows(row, row + count).columns(column, column + width),
                   zeros.rows(0, count).columns(0, width));
      });
    });
  }
  if (first == last) return;
  NumberColumns from(core, list), to(core, owners);
  Pair tiles(core, DType::fp32, (std::min)(last - first, lanes), width_most);
  for_pieces(last - first, lanes, [&](std::size_t begin, std::size_t count) {
    const Tile source = from.next(first + begin, count), target = to.next(first + begin, count);
    for_pieces(columns, piece, [&](std::size_t column, std::size_t width) {
      const Tile tile = tiles.next(count, width);
      core.dma.gather(tile, dy.view().columns(column, column + width), source);
      core.dma.queue(store_queue)
          .scatter(sums.columns(column, column + width), tile, target, neuroncore::Scatter::add);
    });
  });
}

}  // namespace SOMA_NAMESPACE::programs
