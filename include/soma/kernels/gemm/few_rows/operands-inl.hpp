// Operand b of products with few rows (gemm/few_rows/few_rows-inl.hpp), and their workspace.

#if defined(SOMA_KERNELS_GEMM_FEW_ROWS_OPERANDS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_FEW_ROWS_OPERANDS_INL_HPP
#undef SOMA_KERNELS_GEMM_FEW_ROWS_OPERANDS_INL_HPP
#else
#define SOMA_KERNELS_GEMM_FEW_ROWS_OPERANDS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/args.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/bf16_pairs-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>
#include <soma/kernels/gemm/workspace-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

// With more rows, packing b pays, because each column of b then serves enough rows. Products of
// 40, 64 and 128 rows with 8 lanes are 1.25, 1.15 and 1.12 times as fast as with b packed, of 192
// rows 1.03. With 16 lanes more than 64 were not measured.
inline constexpr std::size_t few_rows_most = float_lanes == 16 ? 64 : 128;
// True if products of so many rows are faster with b in place than with b that is packed already:
// 15 and 16 rows fill PairedBlocks, and one register block and a part of another.
constexpr bool in_place_is_faster(std::size_t rows) {
  return float_lanes == 16 && (rows == 15 || rows == 16);
}
// The most vectors of rows that LineBlocks take together: three if vectors are short, so that 23
// rows fill 23 of 24 places instead of 23 of 32.
inline constexpr std::size_t line_vectors =
    float_lanes == 8 || float_lanes == 4 ? 3 : micro_vectors;
inline constexpr std::size_t line_rows = line_vectors * float_lanes;
// Columns of b whose distance is a multiple of 4 KiB share one set of the first-level cache, which
// has 8 places: of 12 or 14 columns each evicts another before its cache line is used up.
inline constexpr std::size_t cache_ways = 8, cache_way_bytes = 4096;
// With fewer columns, the work around the columns takes longer than the columns.
inline constexpr std::size_t few_rows_least_columns = 64;
// With a larger k, packed a (always packed whole) would take more than 4 MiB.
inline constexpr std::size_t few_rows_most_depth = (std::size_t{1} << 20) / few_rows_most;

namespace {  // internal linkage: units with other flags have their own

// Columns of b in place, adjacent along k: `stride` floats apart, with one float for each step of
// Products.
struct ColumnLines {
  const float* data;
  std::size_t stride, columns, steps;

  struct Position {
    std::size_t column, step;
  };

  const float* at(const Position& position) const {
    return data + position.column * stride + position.step;
  }
  // The start of a block of `width` columns. The last block overlaps the block before it if fewer
  // columns are left.
  std::size_t start(std::size_t column, std::size_t width) const {
    return (std::min)(column, columns - width);
  }
};

struct FewRowsWorkspace {
  // The most columns that are taken at a time.
  static constexpr std::size_t tile_columns = gemm_tile_columns;
  static constexpr std::size_t tile_stride = tile_columns + 2 * gemm_tile_padding;

  explicit FewRowsWorkspace(std::byte* memory)
      : buffer(memory),
        sums(reinterpret_cast<float*>(memory + buffer_bytes)),
        tile(sums + sums_floats + gemm_tile_padding),
        panel(sums + sums_floats + tile_floats),
        a(panel + panel_floats) {}

  // The bytes for products with k steps. The result never decreases with k.
  static constexpr std::size_t bytes(std::size_t k) {
    const std::size_t a_floats =
        step_floats * round_up_to((std::min)(k, few_rows_most_depth), tile_steps);
    return buffer_bytes +
           round_up_to((sums_floats + tile_floats + panel_floats + a_floats) * sizeof(float), 64);
  }

  std::byte* buffer;  // for the source of a
  float* sums;        // sums of a tile, laid out as blocks of columns have them
  float* tile;        // columns that a block has beside its own may come before the first
  float* panel;       // pack_depth steps of micro_columns rows
  float* a;           // all of it

 private:
  static constexpr std::size_t buffer_bytes =
      round_up_to((std::max)(sizeof(PackBuffer), sizeof(PairBuffer)), 64);
  static constexpr std::size_t sums_floats = (tile_columns + 2 * micro_rows) * line_rows;
  static constexpr std::size_t tile_floats = line_rows * tile_stride;
  static constexpr std::size_t panel_floats = pack_depth * micro_columns;
  // Rows of a in the layout of LineBlocks, followed by two or three vectors of PairedBlocks; or
  // three bf16 numbers for each element.
  static constexpr std::size_t step_floats =
      SOMA_HAS_BF16_DOT ? (std::max)(few_rows_most * 3 / 2, micro_columns + 3 * float_lanes)
                        : round_up_to(few_rows_most, float_lanes);
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
