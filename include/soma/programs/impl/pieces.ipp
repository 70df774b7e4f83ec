#pragma once
// The functions of pieces.hpp.

#include <soma/programs/pieces.hpp>

#include <soma/programs/inputs.hpp>
#include <soma/programs/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

SOMA_INLINE Tile Scratch::tile(std::size_t number, std::size_t partitions, std::size_t elements) {
  Tile& whole = tiles_[number];
  if (!whole.defined()) whole = core_.sbuf.tile(DType::fp32, partitions_, elements_);
  return whole.rows(0, partitions).columns(0, elements);
}

SOMA_INLINE Tile Scratch::like(std::size_t number, const Tile& other) {
  return tile(number, other.partitions(), other.free_size());
}

SOMA_INLINE void fill(Core& core, const Tensor& output, float value) {
  const HbmView to = flat_target(output);
  const ElementTiles tiles(output.elements());
  const Tile tile = core.sbuf.tile(DType::fp32, tiles.partitions(), tiles.width());
  core.vector.memset(tile, value);
  tiles.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
    core.dma.queue(store_queue)
        .store(element_block(to, first, rows, columns), tile.rows(0, rows).columns(0, columns));
  });
}

SOMA_INLINE std::size_t row_partitions(std::size_t rows) { return (std::min)(rows, lanes); }

SOMA_INLINE RowPieces::RowPieces(Core& core, const DeviceRows& rows)
    : core_(core),
      rows_(rows),
      tiles_(core, rows.dtype(), row_partitions(rows.rows()), piece_columns(rows.columns())) {}

SOMA_INLINE void RowPieces::start(std::size_t row, std::size_t count) {
  row_ = row;
  count_ = count;
  tile_ = {};
}

SOMA_INLINE Tile RowPieces::read(std::size_t column, std::size_t columns) {
  if (tile_.defined() && column == column_) return tile_;
  column_ = column;
  tile_ = tiles_.next(count_, columns);
  core_.dma.load(tile_, rows_.block(row_, count_, column, columns));
  return tile_;
}

SOMA_INLINE RepeatedRow::RepeatedRow(Core& core, const Tensor& vector, std::size_t partitions)
    : core_(core), vector_(vector), partitions_(partitions) {
  if (!vector.defined()) return;
  const std::size_t columns = piece_columns(vector.elements());
  for (std::size_t i = 0; i < (columns == vector.elements() ? 1u : 2u); ++i)
    tiles_[i] = core.sbuf.tile(DType::fp32, partitions, columns);
}

SOMA_INLINE bool RepeatedRow::defined() const { return vector_.defined(); }

SOMA_INLINE Tile RepeatedRow::read(std::size_t partitions, std::size_t column,
                                   std::size_t columns) {
  if (!loaded_ || column != column_) {
    turn_ = tiles_[1].defined() ? turn_ ^ 1 : 0;
    core_.dma.load(tiles_[turn_].columns(0, columns),
                   hbm(vector_).columns(column, column + columns).broadcast_rows(partitions_));
    column_ = column;
    loaded_ = true;
  }
  return tiles_[turn_].rows(0, partitions).columns(0, columns);
}

SOMA_INLINE HbmView column_of(const HbmView& vector, std::size_t row, std::size_t count) {
  return vector.as_rows(1).rows(row, row + count);
}

SOMA_INLINE Tile column_tile(Core& core, std::size_t partitions) {
  return core.sbuf.tile(DType::fp32, partitions, 1);
}

}  // namespace SOMA_NAMESPACE::programs
