#pragma once
// The rows of a pack with the columns of all its heads, in SBUF. A transfer takes as long for a row
// of 128 bytes (a head of 64 elements of bf16) as for a row of 2 KiB. So whole rows are loaded,
// heads read their columns from SBUF and write results to SBUF, and whole rows are stored. If a
// pack is too long for that, each head moves its own columns.

#include <soma/programs/product/operand.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

// Blocks of up to 128 rows side by side, in two alternating tiles.
class PackTiles {
 public:
  // For packs of up to `longest` rows. It takes no memory if less than `left` bytes of SBUF a
  // partition would remain.
  PackTiles(Core& core, DType dtype, std::size_t longest, std::size_t columns) : columns_(columns) {
    constexpr std::size_t left = 16 * 1024;
    const std::size_t elements = blocks_of(longest) * columns;
    const std::size_t free = core.sbuf.capacity() - core.sbuf.used();
    if (elements == 0 || free < left || elements > (free - left) / (2 * size_of(dtype))) return;
    for (Tile& tile : tiles_) tile = core.sbuf.tile(dtype, (std::min)(longest, lanes), elements);
  }

  bool used() const { return tiles_[0].defined(); }
  std::size_t columns() const { return columns_; }
  // Begins the next pack, at this row of the matrix.
  void begin(std::size_t row) {
    row_ = row;
    turn_ ^= 1;
  }
  // The rows of one block: `row` is a multiple of 128 rows after the pack's first row.
  Tile at(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) const {
    const std::size_t first = (row - row_) / lanes * columns_ + column;
    return tiles_[turn_].rows(0, rows).columns(first, first + columns);
  }

 private:
  std::size_t columns_, row_ = 0, turn_ = 0;
  Tile tiles_[2]{};
};

// The input rows of heads.
class PackRows {
 public:
  PackRows(Core& core, const HbmView& view, DType dtype, std::size_t longest)
      : core_(core), view_(view), tiles_(core, dtype, longest, view.row_elements()) {}

  bool used() const { return tiles_.used(); }
  void begin(std::size_t row, std::size_t rows) {
    if (!used()) return;
    tiles_.begin(row);
    for_pieces(rows, lanes, [&](std::size_t at, std::size_t count) {
      core_.dma.load(tiles_.at(row + at, count, 0, tiles_.columns()),
                     view_.rows(row + at, row + at + count));
    });
  }
  Tile at(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) const {
    return tiles_.at(row, rows, column, columns);
  }

 private:
  Core& core_;
  HbmView view_;
  PackTiles tiles_;
};

// The result rows of heads.
class PackResults {
 public:
  PackResults(Core& core, const HbmView& target, DType dtype, std::size_t longest)
      : core_(core), target_(target), tiles_(core, dtype, longest, target.row_elements()) {}

  bool used() const { return tiles_.used(); }
  void begin(std::size_t row) { tiles_.begin(row); }
  Tile at(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) const {
    return tiles_.at(row, rows, column, columns);
  }
  // To call when all heads have written all of their columns.
  void end(std::size_t row, std::size_t rows) {
    if (!used()) return;
    for_pieces(rows, lanes, [&](std::size_t at, std::size_t count) {
      core_.dma.queue(store_queue)
          .store(target_.rows(row + at, row + at + count),
                 tiles_.at(row + at, count, 0, tiles_.columns()));
    });
  }

 private:
  Core& core_;
  HbmView target_;
  PackTiles tiles_;
};

// One fp32 number for each head and row of a pack: [heads, rows] in device memory, [rows, heads]
// beside the rows. The Vector engine transposes them 32 x 32 at a time, which only moves bits.
class PackNumbers {
 public:
  // `view`: [heads, rows].
  PackNumbers(Core& core, const HbmView& view, std::size_t longest)
      : core_(core),
        view_(view),
        heads_(view.rows()),
        step_(core.machine().transpose_vector),
        tiles_(core, DType::fp32, heads_ > lanes || lanes % step_ != 0 ? 0 : longest, heads_) {
    if (!used()) return;
    for (Tile& tile : turned_)
      tile = core.sbuf.tile(DType::fp32, heads_, (std::min)(longest, lanes));
  }

  bool used() const { return tiles_.used(); }
  void begin(std::size_t row) { tiles_.begin(row); }
  // The numbers of one head, [rows, 1].
  Tile at(std::size_t row, std::size_t rows, std::size_t head) const {
    return tiles_.at(row, rows, head, 1);
  }
  void load(std::size_t row, std::size_t rows) {
    if (!used()) return;
    tiles_.begin(row);
    for_pieces(rows, lanes, [&](std::size_t at, std::size_t count) {
      const Tile turned = next(count);
      core_.dma.load(turned, view_.columns(row + at, row + at + count));
      turn(tiles_.at(row + at, count, 0, heads_), turned);
    });
  }
  void store(std::size_t row, std::size_t rows) {
    if (!used()) return;
    for_pieces(rows, lanes, [&](std::size_t at, std::size_t count) {
      const Tile turned = next(count);
      turn(turned, tiles_.at(row + at, count, 0, heads_));
      core_.dma.queue(store_queue).store(view_.columns(row + at, row + at + count), turned);
    });
  }

 private:
  Tile next(std::size_t count) {
    turn_ ^= 1;
    return turned_[turn_].columns(0, count);
  }
  void turn(const Tile& to, const Tile& from) {
    for_pieces(from.partitions(), step_, [&](std::size_t row, std::size_t rows) {
      for_pieces(from.free_size(), step_, [&](std::size_t column, std::size_t columns) {
        core_.vector.transpose(to.rows(column, column + columns).columns(row, row + rows),
                               from.rows(row, row + rows).columns(column, column + columns));
      });
    });
  }

  Core& core_;
  HbmView view_;
  std::size_t heads_, step_;
  PackTiles tiles_;
  Tile turned_[2]{};
  std::size_t turn_ = 0;
};

}  // namespace SOMA_NAMESPACE::programs
