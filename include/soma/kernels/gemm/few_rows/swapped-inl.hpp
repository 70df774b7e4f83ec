// Products of few rows with columns of b that are read in place (gemm/few_rows/few_rows-inl.hpp),
// by the innermost loop of all products. The two operands swap roles: the loop's rows are columns
// of b, its columns are rows of a.

#if defined(SOMA_KERNELS_GEMM_FEW_ROWS_SWAPPED_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_FEW_ROWS_SWAPPED_INL_HPP
#undef SOMA_KERNELS_GEMM_FEW_ROWS_SWAPPED_INL_HPP
#else
#define SOMA_KERNELS_GEMM_FEW_ROWS_SWAPPED_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/few_rows/operands-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

namespace {  // internal linkage: units with other flags have their own

// kRows rows of a matrix. The rows at `ahead` are used next and are prefetched.
template <std::size_t kRows>
struct RowsBeforeRows : MatrixRows<kRows> {
  RowsBeforeRows(const float* first, std::size_t row_stride, const float* rows)
      : MatrixRows<kRows>(first, row_stride), ahead(rows), stride(row_stride) {}
  HWY_INLINE void fetch(std::size_t step) const {
    if (step % line_floats != 0) return;
    for (std::size_t row = 0; row < kRows; ++row) hwy::Prefetch(ahead + step + row * stride);
  }

  const float* ahead;
  std::size_t stride;
};

// Copies the sums of `columns` columns from `first` on, which are [column][kRows] in blocks of
// kColumns, to the rows of a tile.
template <std::size_t kColumns, std::size_t kRows = micro_columns>
HWY_NOINLINE HWY_MAYBE_UNUSED static void turn_sums(const ColumnLines& b, const float* sums,
                                                    std::size_t first, std::size_t count,
                                                    std::size_t tile_rows, float* tile) {
  const auto line_of = [&](std::size_t column) {
    const std::size_t block = first + column / kColumns * kColumns;
    return sums + (column + block - b.start(block, kColumns)) * kRows;
  };
  // Handles whole groups of columns and four rows at a time; the tile has room for the excess.
  static_assert(FewRowsWorkspace::tile_columns % pack_group == 0 && kRows % 4 == 0);
  for (std::size_t column = 0; column < count; column += pack_group) {
    const float* lines[pack_group];
    for (std::size_t i = 0; i < pack_group; ++i)
      lines[i] = line_of((std::min)(column + i, count - 1));
    for (std::size_t row = 0; row < tile_rows; row += 4)
      turn_group(lines, row, tile + row * FewRowsWorkspace::tile_stride + column,
                 FewRowsWorkspace::tile_stride);
  }
}

// Blocks of kColumns columns of b with kVectors vectors of rows of a. The number of sums in
// registers is the same as in all products, so a block has more rows and fewer columns.
template <class Products, std::size_t kVectors = micro_vectors,
          std::size_t kColumns = micro_rows* micro_vectors / kVectors>
class LineBlocks {
 public:
  static constexpr std::size_t rows = kVectors * float_lanes;
  static constexpr std::size_t columns = kColumns;
  static constexpr std::size_t step_floats = rows;  // in packed a
  // The same with half as many columns, where the first-level cache has no place for all of them.
  using Crowded = std::conditional_t<(kColumns > cache_ways),
                                     LineBlocks<Products, kVectors, kColumns / 2>, LineBlocks>;
  // At most 24 KiB of a, which stay in the first-level cache while all columns of b are multiplied
  // by them.
  static constexpr std::size_t most_steps = pack_depth;

  LineBlocks(const ColumnLines& b, const FewRowsWorkspace& workspace)
      : b_(b), sums_(workspace.sums) {}

  static constexpr std::size_t panel_floats(std::size_t) { return 0; }  // one for all rows

  // At most pack_depth steps of k and kVectors vectors of rows of a.
  template <class Source>
  static void pack(const Source& a, const PackPart& part, typename Source::Buffer& buffer, float*) {
    a.template pack<rows, rows>(part, buffer);
  }

  // Adds the product of `steps` steps to the sums of `count` columns, or sets the sums if `step` is
  // 0. The columns at `next` are read afterwards and are prefetched.
  void add(const ColumnLines::Position& first, std::size_t count, std::size_t steps, const float* a,
           const ColumnLines::Position& next, std::size_t) const {
    using RowsOfB = RowsBeforeRows<columns>;
    const SumPath path{sums_, rows, first.step == 0};
    for (std::size_t at = 0; at < count; at += columns) {
      const float* const ahead =
          at + columns < count ? block({first.column + at + columns, first.step}) : block(next);
      fetch_sums<columns>(path, (at + columns) * rows);
      MicroKernel<Products, RowsOfB, columns, kVectors, rows>::run(
          steps, {block({first.column + at, first.step}), b_.stride, ahead}, a,
          path.behind(at * rows));
    }
  }

  // Copies the sums of `count` columns from `first` on, which are [column][row], to the tile's
  // rows.
  void turn(std::size_t first, std::size_t count, std::size_t tile_rows, float* tile) const {
    turn_sums<columns, rows>(b_, sums_, first, count, tile_rows, tile);
  }

 private:
  const float* block(const ColumnLines::Position& first) const {
    return b_.at({b_.start(first.column, columns), first.step});
  }

  ColumnLines b_;
  float* sums_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
