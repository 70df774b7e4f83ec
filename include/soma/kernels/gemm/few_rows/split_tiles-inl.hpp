// Products of few rows with columns of b that are read in place (gemm/few_rows/few_rows-inl.hpp),
// with split numbers (gemm/pack/fp32_split-inl.hpp). The two operands swap roles: columns of b are
// the rows of tiles. They are split as they are read: the columns of the next step are split while
// tiles multiply the current step. Each sum adds its products in the same order as in every other
// way.

#if defined(SOMA_KERNELS_GEMM_FEW_ROWS_SPLIT_TILES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_FEW_ROWS_SPLIT_TILES_INL_HPP
#undef SOMA_KERNELS_GEMM_FEW_ROWS_SPLIT_TILES_INL_HPP
#else
#define SOMA_KERNELS_GEMM_FEW_ROWS_SPLIT_TILES_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/few_rows/operands-inl.hpp>
#include <soma/kernels/gemm/few_rows/swapped-inl.hpp>
#include <soma/kernels/gemm/pack/fp32_split-inl.hpp>
#include <soma/kernels/gemm/tiles/split_step-inl.hpp>
#include <soma/simd/bf16_tiles-inl.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#if SOMA_HAS_BF16_TILES
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {  // internal linkage: units with other flags have their own

// The counterpart of LineBlocks for split numbers.
class SplitBlocks {
 public:
  static constexpr std::size_t rows = 2 * tile_floats, columns = 2 * tile_lines;
  static constexpr std::size_t step_floats = split_step_floats / tile_steps;  // tiles of 16 rows
  static constexpr std::size_t most_steps = 1536;  // 288 KiB of a, from the second-level cache

  // Floats of 16 rows with `steps` steps.
  static constexpr std::size_t panel_floats(std::size_t steps) {
    return (steps + tile_steps - 1) / tile_steps * split_step_floats;
  }

  SplitBlocks(const ColumnLines& b, const FewRowsWorkspace& workspace)
      : b_(b), sums_(workspace.sums), split_(workspace.panel), other_(split_ + block_floats) {
    static_assert(2 * block_floats <= pack_depth * micro_columns);
    static_assert(rows == micro_columns && most_steps % tile_steps == 0);
  }

  static void pack(const SplitSource& a, const PackPart& part, SplitBuffer& buffer, float*) {
    a.pack_b(part, buffer);
  }

  void add(const ColumnLines::Position& first, std::size_t count, std::size_t steps, const float* a,
           const ColumnLines::Position& next, std::size_t tile_rows) {
    const float* const right = tile_rows > tile_floats ? a + panel_floats(b_.steps) : nullptr;
    split_step({block(first), b_.stride, steps}, split_);
    for (std::size_t at = 0; at < count; at += columns) {
      const std::size_t behind = at + columns;
      const ColumnLines::Position after =
          behind < count ? ColumnLines::Position{first.column + behind, first.step} : next;
      const Lines lines{block({first.column + at, first.step}), b_.stride, steps};
      // The end of this block already splits one step of the next block.
      const Lines ahead{block(after), b_.stride, b_.steps - after.step};
      float* const sums = sums_ + at * micro_columns;
      if (right != nullptr)
        run<2>(lines, ahead, a, right, first.step == 0, sums);
      else
        run<1>(lines, ahead, a, right, first.step == 0, sums);
    }
  }

  void turn(std::size_t first, std::size_t count, std::size_t tile_rows, float* tile) const {
    turn_sums<columns>(b_, sums_, first, count, tile_rows, tile);
  }

 private:
  static constexpr std::size_t block_floats = 2 * split_step_floats;  // columns a step

  // All columns, from a step on, for `steps` steps.
  struct Lines {
    const float* first;
    std::size_t stride, steps;
  };

  const float* block(const ColumnLines::Position& first) const {
    return b_.at({b_.start(first.column, columns), first.step});
  }

  // Splits columns `first` to `end` of a step. They lie in one tile.
  static HWY_INLINE void split_some(const Lines& lines, std::size_t first, std::size_t end,
                                    float* to) {
    const Floats d;
    const float* from = lines.first + first * lines.stride;
    to += first / tile_lines * split_step_floats + first % tile_lines * tile_floats;
    for (std::size_t i = first; i < end; ++i, from += lines.stride, to += tile_floats)
      split_pairs(hn::LoadU(d, from), hn::LoadU(d, from + tile_floats), to);
  }
  HWY_NOINLINE HWY_MAYBE_UNUSED static void split_step(const Lines& lines, float* to) {
    if (lines.steps >= tile_steps) {
      split_some(lines, 0, tile_lines, to);
      return split_some(lines, tile_lines, columns, to);
    }
    const Floats d;
    const std::size_t even = (std::min)(lines.steps, tile_floats), odd = lines.steps - even;
    const float* from = lines.first;
    for (std::size_t i = 0; i < columns; ++i, from += lines.stride, to += tile_floats) {
      if (i == tile_lines) to += split_step_floats - split_tile_floats;
      split_pairs(hn::MaskedLoad(hn::FirstN(d, even), d, from),
                  hn::MaskedLoad(hn::FirstN(d, odd), d, from + even), to);
    }
  }

  // Splits a share of the next step's columns. No share crosses the border between tiles. Later
  // columns are prefetched.
  struct SplitNext {
    const Lines& next;
    const float* fetched;
    float* to;
    bool whole;

    HWY_INLINE void operator()(std::size_t turn) const {
      constexpr std::size_t shares[] = {0, 6, 12, 16, 22, 28, columns};
      static_assert(std::size(shares) == SplitStep<2, 2>::turns + 1);
      if (!whole) return;
      split_some(next, shares[turn], shares[turn + 1], to);
      for (std::size_t i = shares[turn]; i < shares[turn + 1]; ++i) {
        hwy::Prefetch(fetched + i * next.stride);
        hwy::Prefetch(fetched + i * next.stride + line_floats);
      }
    }
  };

  // When it begins, the first step of the lines is split already; at the end, the first step of the
  // lines after them is.
  template <int kTiles>
  HWY_NOINLINE HWY_MAYBE_UNUSED void run(const Lines& lines, const Lines& after, const float* a,
                                         const float* right, bool fresh, float* to) {
    using Sums = SumTiles<2, kTiles>;
    constexpr std::size_t ahead = 4 * tile_steps;
    if (fresh)
      Sums::clear();
    else
      Sums::load(to, micro_columns);
    for (std::size_t step = 0; step < lines.steps; step += tile_steps) {
      const bool last = step + tile_steps >= lines.steps;
      const std::size_t left = last ? after.steps : lines.steps - step - tile_steps;
      const Lines next{last ? after.first : lines.first + step + tile_steps, lines.stride, left};
      const bool whole = left >= tile_steps;
      if (!whole) split_step(next, other_);
      const float* const fetched = step + tile_steps + ahead < lines.steps
                                       ? lines.first + step + tile_steps + ahead
                                       : after.first + step % ahead;
      SplitStep<2, kTiles, true>{split_, split_ + split_step_floats, a, right}.run(
          SplitNext{next, fetched, other_, whole});
      a += split_step_floats;
      right += kTiles == 2 ? split_step_floats : 0;
      std::swap(split_, other_);
    }
    Sums::store(to, micro_columns);
  }

  ColumnLines b_;
  float *sums_, *split_, *other_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
