#pragma once
// Rows of device memory whose numbers a program knows: rows with one distance form a run, which one
// transfer moves.

#include <soma/programs/inputs.hpp>
#include <soma/programs/support.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::programs {

// Calls call(i, count, first row, distance) for runs of the rows row(0) ... row(count - 1), each
// with one distance of 1 or more.
template <class Row, class Call>
void for_row_runs(std::size_t count, const Row& row, const Call& call) {
  for (std::size_t begin = 0; begin < count;) {
    const std::size_t first = row(begin);
    std::size_t end = begin + 1;
    std::size_t distance = 1;
    if (end < count && row(end) > first) {
      distance = row(end) - first;
      while (end < count && row(end) == first + (end - begin) * distance) ++end;
    }
    call(begin, end - begin, first, distance);
    begin = end;
  }
}

// Partition i of the tile = columns of the view's row row(i).
template <class Row>
void load_rows(Core& core, const Tile& tile, const HbmView& view, const Row& row) {
  for_row_runs(tile.partitions(), row,
               [&](std::size_t i, std::size_t count, std::size_t first, std::size_t distance) {
                 core.dma.load(
                     tile.rows(i, i + count),
                     view.rows(first, first + 1).with_rows(count, distance * view.stride(0)));
               });
}
// And back.
template <class Row>
void store_rows(Core& core, const HbmView& view, const Tile& tile, const Row& row) {
  for_row_runs(tile.partitions(), row,
               [&](std::size_t i, std::size_t count, std::size_t first, std::size_t distance) {
                 core.dma.queue(store_queue)
                     .store(view.rows(first, first + 1).with_rows(count, distance * view.stride(0)),
                            tile.rows(i, i + count));
               });
}

}  // namespace SOMA_NAMESPACE::programs
