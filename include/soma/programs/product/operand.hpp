#pragma once
// Operands of products in the layout of the Tensor engine: the dimension that is summed over is on
// the partitions. If it runs along the rows of a matrix, the Tensor engine transposes the matrix
// while it is loaded, 128 x 128 elements at a time.

#include <soma/programs/support.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace SOMA_NAMESPACE::programs {

inline constexpr std::size_t bank_columns = 512;  // columns of a product that one PSUM bank holds

constexpr std::size_t blocks_of(std::size_t count) { return (count + lanes - 1) / lanes; }

// The type of tiles for two operands of a product: their own type if the Tensor engine pairs the
// two, else fp32. (16-bit and 8-bit floating types pair with each other.)
constexpr bool is_wide(DType dtype) { return !is_floating(dtype) || size_of(dtype) == 4; }
constexpr DType operand_type(DType own, DType other) {
  return is_floating(own) && is_wide(own) == is_wide(other) ? own : DType::fp32;
}

// A matrix in device memory that is summed over its inner dimension: the rows of the view, or its
// columns.
struct InnerOperand {
  HbmView view;
  bool inner_rows = true;
  Quantization quantization{};
  DType tile_type = DType::fp32;

  std::size_t inner() const { return inner_rows ? view.rows() : view.row_elements(); }
  std::size_t outer() const { return inner_rows ? view.row_elements() : view.rows(); }
  // Stored numbers that need scaling go through a tile of their own.
  bool scaled() const { return quantization.scale != 1 || quantization.zero_point != 0; }
};

// Transposes rows: src [rows of up to 4 tiles, inner] to dst [inner, rows], through one bank of
// PSUM.
class Turner {
 public:
  // Takes one bank of PSUM, or two that take turns.
  Turner(Core& core, DType dtype, std::size_t banks = 2)
      : core_(core), capacity_(core.machine().psum_bank_bytes / size_of(dtype)) {
    for (Tile& turned : turned_)
      turned =
          banks == 1 && turned_[0].defined() ? turned_[0] : core.psum.tile(lanes, capacity_, dtype);
  }

  // Block b of `to`, [up to 128 inner, rows], begins at b * rows. `from(row, rows)` is the tile of
  // these rows, [rows, inner].
  template <class From>
  void turn(const Tile& to, std::size_t rows, std::size_t inner, const From& from) {
    const std::size_t together = capacity_ / rows;
    for (std::size_t block = 0; block < blocks_of(inner);) {
      // A last block that is not full has fewer partitions, so it is handled separately.
      const std::size_t full = inner / lanes;
      const std::size_t count = block < full ? (std::min)(together, full - block) : 1;
      const std::size_t height = (std::min)(lanes, inner - block * lanes);
      const Tile turned = turned_[turn_ ^= 1].rows(0, height);
      for (std::size_t i = 0; i < count; ++i)
        for_pieces(rows, lanes, [&](std::size_t row, std::size_t part) {
          const std::size_t first = (block + i) * lanes;
          core_.tensor.transpose(turned.columns(i * rows + row, i * rows + row + part),
                                 from(row, part).columns(first, first + height));
        });
      core_.vector.copy(to.rows(0, height).columns(block * rows, (block + count) * rows),
                        turned.columns(0, count * rows));
      block += count;
    }
  }

 private:
  Core& core_;
  std::size_t capacity_;
  Tile turned_[2];
  std::size_t turn_ = 0;
};

// Loads parts of an operand into tiles [min(128, inner), blocks of inner x outer]: inner element i
// of outer element j is in partition i % 128 at i / 128 * outer + j.
class OperandLoader {
 public:
  // Parts have at most `most_outer` outer elements (at most 512 if they are transposed); `banks`:
  // banks of PSUM for transposing.
  OperandLoader(Core& core, const InnerOperand& operand, std::size_t most_outer,
                std::size_t banks = 2)
      : core_(core), operand_(operand) {
    const std::size_t outer = (std::min)(most_outer, operand.outer());
    // Transfers of rows of 2 KiB and more reach most of the bandwidth.
    constexpr std::size_t rows_bytes = 8 * 1024;
    together_ =
        std::clamp(rows_bytes / (size_of(operand.tile_type) * blocks_of((std::max)(outer, lanes))) /
                       bank_columns * bank_columns,
                   bank_columns, 4 * bank_columns);
    const std::size_t inner = (std::min)(operand.inner(), together_);
    const std::size_t row = operand.inner_rows ? outer : blocks_of(outer) * inner;
    if (operand.scaled()) stored_.emplace(core, operand.view.dtype(), lanes, row);
    if (operand.inner_rows) return;
    rows_.emplace(core, operand.tile_type, lanes, row);
    turner_.emplace(core, operand.tile_type, banks);
  }

  void load(const Tile& to, std::size_t outer_begin, std::size_t outer, std::size_t inner_begin,
            std::size_t inner) {
    load_from(operand_.view, to, outer_begin, outer, inner_begin, inner);
  }
  // The same for another matrix of the same kind, in the same buffers.
  void load_from(const HbmView& view, const Tile& to, std::size_t outer_begin, std::size_t outer,
                 std::size_t inner_begin, std::size_t inner) {
    if (operand_.inner_rows) {
      for_pieces(inner, lanes, [&](std::size_t first, std::size_t height) {
        const std::size_t at = first / lanes * outer;
        fetch(to.rows(0, height).columns(at, at + outer),
              view.rows(inner_begin + first, inner_begin + first + height)
                  .columns(outer_begin, outer_begin + outer),
              0);
      });
      return;
    }
    for_pieces(inner, together_, [&](std::size_t first, std::size_t width) {
      const std::size_t begin = inner_begin + first;
      const Tile rows = rows_->next(lanes, blocks_of(outer) * width);
      const auto part = [&](std::size_t row, std::size_t count) {
        return rows.rows(0, count).columns(row / lanes * width, (row / lanes + 1) * width);
      };
      for_pieces(outer, lanes, [&](std::size_t row, std::size_t count) {
        fetch(part(row, count),
              view.rows(outer_begin + row, outer_begin + row + count).columns(begin, begin + width),
              row / lanes * width);
      });
      const std::size_t at = first / lanes * outer;
      turner_->turn(to.columns(at, at + blocks_of(width) * outer), outer, width, part);
    });
  }
  // The same for rows that are in SBUF already, in the operand's type: rows(row, count) is the tile
  // of up to 128 rows, [count, inner].
  template <class Rows>
  void turn(const Tile& to, std::size_t outer, std::size_t inner, const Rows& rows) {
    for_pieces(inner, bank_columns, [&](std::size_t first, std::size_t width) {
      const std::size_t at = first / lanes * outer;
      turner_->turn(to.columns(at, at + blocks_of(width) * outer), outer, width,
                    [&](std::size_t row, std::size_t count) {
                      return rows(row, count).columns(first, first + width);
                    });
    });
  }

 private:
  // If types differ, the transfer converts. Stored numbers become (stored - zero point) * scale.
  void fetch(const Tile& to, const HbmView& from, std::size_t column) {
    if (!operand_.scaled()) {
      core_.dma.load(to, from);
      return;
    }
    const Tile stored = stored_->next(to.partitions(), column + to.free_size())
                            .columns(column, column + to.free_size());
    core_.dma.load(stored, from);
    core_.vector.tensor_scalar(to, stored, Alu::subtract,
                               static_cast<float>(operand_.quantization.zero_point), Alu::multiply,
                               operand_.quantization.scale);
  }

  Core& core_;
  InnerOperand operand_;
  std::size_t together_ = bank_columns;  // inner elements of rows that one transfer moves
  std::optional<Pair> stored_, rows_;
  std::optional<Turner> turner_;
};

}  // namespace SOMA_NAMESPACE::programs
