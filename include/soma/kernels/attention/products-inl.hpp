// Products of the panels of attention/panels-inl.hpp, which are read as they lie on either side of
// a product: an fp32 number in each place, or two bf16 numbers that are adjacent along the sum.

#if defined(SOMA_KERNELS_ATTENTION_PRODUCTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_PRODUCTS_INL_HPP
#undef SOMA_KERNELS_ATTENTION_PRODUCTS_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_PRODUCTS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention/panels-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

// Keys whose scores are made together. Part of the result's definition (the largest score so far is
// brought up to date once a block), so the same on every target; a multiple of the 14 rows of
// AVX-512's micro-tiles, and enough for texts cut at 128.
inline constexpr std::size_t key_block = 140;

// Rows of a product are taken in blocks of micro_rows, the last ones in smaller blocks, for texts
// are short.
inline constexpr std::size_t middle_rows = (micro_rows / 2 + 1) / 2 * 2;
inline constexpr std::size_t small_rows = middle_rows / 2;
static constexpr std::size_t rows_of_next_block(std::size_t rows) {
  const bool two_middle = rows > micro_rows && rows <= 2 * middle_rows;
  if (rows + 1 >= micro_rows && !two_middle) return micro_rows;
  return rows > small_rows ? middle_rows : small_rows;
}
static constexpr std::size_t rows_of_blocks(std::size_t rows) {
  std::size_t taken = 0;
  while (taken < rows) taken += rows_of_next_block(rows - taken);
  return taken;
}

// So many rows beyond the last are read of the left-hand side and written. Where the rows are
// columns of a panel, they are among those in use.
inline constexpr std::size_t row_padding = (std::max)(small_rows - 1, std::size_t{1});
static_assert([] {
  for (std::size_t rows = 1; rows <= key_block; ++rows) {
    const std::size_t taken = rows_of_blocks(rows);
    if (taken > rows + row_padding) return false;
    if (rows <= micro_columns && taken > columns_in_use(rows)) return false;
  }
  return true;
}());

// ---- products of panels

namespace {  // internal linkage: units with other flags have their own

// Rows of a as rows of a panel, kDistance floats apart: a step is a column.
template <std::size_t kDistance = micro_columns>
struct PanelRows {
  static constexpr std::size_t row_distance = kDistance;
  const float* at;
  HWY_INLINE ElementPlace* place(std::size_t row) const { return at + row * row_distance; }
  HWY_INLINE void next() { ++at; }
  HWY_INLINE void fetch(std::size_t) const {}
};

// Rows of a as columns of a panel: a step is a row.
struct PanelColumns {
  static constexpr std::size_t row_distance = 1;
  const float* at;
  HWY_INLINE ElementPlace* place(std::size_t row) const { return at + row * row_distance; }
  HWY_INLINE void next() { at += micro_columns; }
  HWY_INLINE void fetch(std::size_t) const {}
};

}  // namespace

template <class Products, class RowsOfA, std::size_t kRows>
static inline void multiply_rows(std::size_t columns, std::size_t steps, const float* a,
                                 const float* b, float* c, bool fresh) {
  const SumPath path{c, micro_columns, fresh};
  if (columns <= float_lanes)
    MicroKernel<Products, RowsOfA, kRows, 1>::run(steps, {a}, b, path);
  else
    MicroKernel<Products, RowsOfA, kRows>::run(steps, {a}, b, path);
}

// A panel c (+)= a b for a panel b of so many steps; from zero where `fresh`.
template <class Products, class RowsOfA>
HWY_NOINLINE HWY_MAYBE_UNUSED static void multiply_panel(std::size_t rows, std::size_t columns,
                                                         std::size_t steps, const float* a,
                                                         const float* b, float* c, bool fresh) {
  while (rows != 0) {
    const std::size_t taken = rows_of_next_block(rows);
    if (taken == micro_rows)
      multiply_rows<Products, RowsOfA, micro_rows>(columns, steps, a, b, c, fresh);
    else if (taken == middle_rows)
      multiply_rows<Products, RowsOfA, middle_rows>(columns, steps, a, b, c, fresh);
    else
      multiply_rows<Products, RowsOfA, small_rows>(columns, steps, a, b, c, fresh);
    a += taken * RowsOfA::row_distance;
    c += taken * micro_columns;
    rows -= (std::min)(taken, rows);
  }
}

// Scores or the like of some keys and a panel of queries: rows of keys, as panels of `panel_rows`
// rows, times columns, in so many steps.
template <class Products>
static inline void multiply_keys(std::size_t keys, std::size_t queries, std::size_t steps,
                                 const float* panels, std::size_t panel_rows, const float* columns,
                                 float* scores) {
  if (steps == 0) std::fill_n(scores, keys * micro_columns, 0.0f);
  for (std::size_t at = 0; at < steps; at += micro_columns) {
    multiply_panel<Products, PanelRows<>>(keys, queries, (std::min)(micro_columns, steps - at),
                                          panels, columns, scores, at == 0);
    panels += panel_rows * micro_columns;
    columns += micro_columns * micro_columns;
  }
}

// Panels c (+)= a b for the first `steps` rows of panels b of `b_rows` rows each. Those of c lie
// `c_panel` floats apart.
template <class Products, class RowsOfA>
static inline void multiply_panels(std::size_t rows, std::size_t width, std::size_t steps,
                                   const float* a, const float* b, std::size_t b_rows, float* c,
                                   std::size_t c_panel, bool fresh) {
  for (std::size_t at = 0; at < width; at += micro_columns) {
    multiply_panel<Products, RowsOfA>(rows, width - at, steps, a, b, c, fresh);
    b += b_rows * micro_columns;
    c += c_panel;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
