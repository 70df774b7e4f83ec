#pragma once
// The cut of inputs: elements of a contiguous tensor as full tiles, and rows that stay in SBUF if
// they fit, and are loaded piece by piece if they do not.

#include <soma/programs/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace soma::programs {

// Adjacent elements as rows of equal length that fill the partitions, followed by the rest as one
// shorter row.
class ElementTiles {
 public:
  explicit ElementTiles(std::size_t count)
      : count_(count),
        width_(count <= one_row ? (std::max)(count, std::size_t{1})
                                : std::clamp((count + lanes - 1) / lanes, shortest, piece)) {}

  // call(first, partitions, elements a partition)
  template <class Call>
  void for_each(const Call& call) const {
    const std::size_t rows = count_ / width_;
    for_pieces(rows, lanes,
               [&](std::size_t row, std::size_t size) { call(row * width_, size, width_); });
    if (count_ % width_ != 0) call(rows * width_, std::size_t{1}, count_ % width_);
  }
  std::size_t partitions() const { return std::clamp(count_ / width_, std::size_t{1}, lanes); }
  std::size_t width() const { return width_; }
  Pair pair(Core& core, DType dtype) const { return Pair(core, dtype, partitions(), width_); }

 private:
  // A transfer of less than 256 bytes a partition costs as much as one of 256.
  static constexpr std::size_t one_row = 512, shortest = 64;
  std::size_t count_, width_;
};

// fp32 tiles for intermediate values; each is allocated at its first use.
class Scratch {
 public:
  Scratch(Core& core, std::size_t partitions, std::size_t elements)
      : core_(core), partitions_(partitions), elements_(elements) {}
  Tile tile(std::size_t number, std::size_t partitions, std::size_t elements) {
    Tile& whole = tiles_[number];
    if (!whole.defined()) whole = core_.sbuf.tile(DType::fp32, partitions_, elements_);
    return whole.rows(0, partitions).columns(0, elements);
  }
  // A tile as large as another one.
  Tile like(std::size_t number, const Tile& other) {
    return tile(number, other.partitions(), other.free_size());
  }

 private:
  Core& core_;
  std::size_t partitions_, elements_;
  std::array<Tile, 5> tiles_{};
};

// Every element of an output = value.
inline void fill(Core& core, const Tensor& output, float value) {
  const HbmView to = flat_target(output);
  const ElementTiles tiles(output.elements());
  const Tile tile = core.sbuf.tile(DType::fp32, tiles.partitions(), tiles.width());
  core.vector.memset(tile, value);
  tiles.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
    core.dma.queue(store_queue)
        .store(element_block(to, first, rows, columns), tile.rows(0, rows).columns(0, columns));
  });
}

// ---- rows

inline constexpr std::size_t longest_whole_row = 2 * piece;

// The columns of a piece: all columns if a row fits.
inline std::size_t piece_columns(std::size_t columns) {
  return columns <= longest_whole_row ? columns : piece;
}
inline std::size_t row_partitions(std::size_t rows) { return (std::min)(rows, lanes); }

// The piece that was read last is not loaded again, so a row of one piece is loaded once for all
// passes.
class RowPieces {
 public:
  RowPieces(Core& core, const DeviceRows& rows)
      : core_(core),
        rows_(rows),
        tiles_(core, rows.dtype(), row_partitions(rows.rows()), piece_columns(rows.columns())) {}
  void start(std::size_t row, std::size_t count) {
    row_ = row;
    count_ = count;
    tile_ = {};
  }
  Tile read(std::size_t column, std::size_t columns) {
    if (tile_.defined() && column == column_) return tile_;
    column_ = column;
    tile_ = tiles_.next(count_, columns);
    core_.dma.load(tile_, rows_.block(row_, count_, column, columns));
    return tile_;
  }

 private:
  Core& core_;
  const DeviceRows& rows_;
  Pair tiles_;
  Tile tile_{};
  std::size_t row_ = 0, count_ = 0, column_ = 0;
};

// A vector (gamma, beta ...) in every partition as fp32, in the same pieces.
class RepeatedRow {
 public:
  RepeatedRow(Core& core, const Tensor& vector, std::size_t partitions)
      : core_(core), vector_(vector), partitions_(partitions) {
    if (!vector.defined()) return;
    const std::size_t columns = piece_columns(vector.elements());
    for (std::size_t i = 0; i < (columns == vector.elements() ? 1u : 2u); ++i)
      tiles_[i] = core.sbuf.tile(DType::fp32, partitions, columns);
  }
  bool defined() const { return vector_.defined(); }
  Tile read(std::size_t partitions, std::size_t column, std::size_t columns) {
    if (!loaded_ || column != column_) {
      turn_ = tiles_[1].defined() ? turn_ ^ 1 : 0;
      core_.dma.load(tiles_[turn_].columns(0, columns),
                     hbm(vector_).columns(column, column + columns).broadcast_rows(partitions_));
      column_ = column;
      loaded_ = true;
    }
    return tiles_[turn_].rows(0, partitions).columns(0, columns);
  }

 private:
  Core& core_;
  Tensor vector_;
  std::size_t partitions_;
  Tile tiles_[2]{};
  std::size_t turn_ = 0, column_ = 0;
  bool loaded_ = false;
};

// ---- one number for each row

// Elements row and following of a contiguous vector, one to a partition.
inline HbmView column_of(const HbmView& vector, std::size_t row, std::size_t count) {
  return vector.as_rows(1).rows(row, row + count);
}
inline Tile column_tile(Core& core, std::size_t partitions) {
  return core.sbuf.tile(DType::fp32, partitions, 1);
}

}  // namespace soma::programs
