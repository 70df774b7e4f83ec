// Products with few rows of a, and columns of b that are adjacent along k, as y = x W^T for one
// sentence: b is read once, so packing b would cost more than multiplying. This code reads columns
// of b in place and packs all of a. Threads that share a product each pack the same a, which costs
// less than waiting for each other, and take columns from a queue. Each sum is the same chain as in
// gemm/gemm-inl.hpp.

#if defined(SOMA_KERNELS_GEMM_FEW_ROWS_FEW_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_FEW_ROWS_FEW_ROWS_INL_HPP
#undef SOMA_KERNELS_GEMM_FEW_ROWS_FEW_ROWS_INL_HPP
#else
#define SOMA_KERNELS_GEMM_FEW_ROWS_FEW_ROWS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/args.hpp>
#include <soma/kernels/gemm/few_rows/operands-inl.hpp>
#include <soma/kernels/gemm/few_rows/paired-inl.hpp>
#include <soma/kernels/gemm/few_rows/split_tiles-inl.hpp>
#include <soma/kernels/gemm/few_rows/swapped-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>
#include <soma/kernels/gemm/workspace-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

namespace {  // internal linkage: units with other flags have their own

// Blocks (LineBlocks or PairedBlocks) compute the sums of some columns.
template <class Products, class Source>
class FewRowsProduct {
 public:
  // True if this class can compute the product.
  static bool takes(const GemmArgs& args) {
    const MatrixOperand& b = args.b;
    const bool places = Products::products == 1
                            ? b.dtype == DType::fp32 && b.scale == 1
                            : b.dtype == DType::bf16 && args.k % 2 == 0 && b.column_stride % 2 == 0;
    return places && b.row_stride == 1 && args.m <= few_rows_most &&
           args.n >= few_rows_least_columns && args.segments.count == 1 && args.k != 0 &&
           args.k <= few_rows_most_depth && args.packed_b.data == nullptr;
  }

  FewRowsProduct(const GemmArgs& args, const Source& a)
      : args_(args),
        a_(a),
        b_{static_cast<const float*>(args.b.data), args.b.column_stride / Products::products,
           args.n, args.k / Products::products},
        workspace_(args.workspace) {}

  // Calls finish(tile, sums) for all columns of the product, or for the columns that this call
  // takes from the queue.
  template <class Finish>
  void run(const Finish& finish) const {
    auto& buffer = *new (workspace_.buffer) typename Source::Buffer;
    for_panels([&]<class Blocks>(std::type_identity<Blocks>, const RowBlock& rows)
                   HWY_ATTR { pack<Blocks>(rows, buffer); });
    ColumnQueue own;
    ColumnQueue& queue = args_.column_queue != nullptr ? *args_.column_queue : own;
    for (Columns next = take(queue); next.count != 0;) {
      const Columns columns = next;
      next = take(queue);
      for_panels([&]<class Blocks>(std::type_identity<Blocks>, const RowBlock& rows) HWY_ATTR {
        const bool last = rows.first + rows.count == args_.m;
        multiply<Blocks>(rows, columns, last ? next.first : columns.first);
        finish(GemmTile{rows.first, columns.first, rows.count, columns.count,
                        FewRowsWorkspace::tile_stride},
               workspace_.tile);
      });
    }
  }

 private:
  static constexpr bool splits = Products::splits;
  using Lines = LineBlocks<Products>;
  using LongLines = LineBlocks<Products, line_vectors>;
  struct Columns {
    std::size_t first, count;
  };
  // Rows of a that are packed from `panel` on.
  struct RowBlock {
    std::size_t first, count;
    float* panel;
  };

  // Calls each(std::type_identity<Blocks>(), rows) for each group of rows that are multiplied
  // together.
  template <class Each>
  HWY_INLINE void for_panels(const Each& each) const {
    float* panel = workspace_.a;
    if constexpr (splits) {
#if SOMA_HAS_BF16_TILES
      for (std::size_t row = 0; row < args_.m; row += SplitBlocks::rows) {
        const std::size_t count = (std::min)(SplitBlocks::rows, args_.m - row);
        each(std::type_identity<SplitBlocks>(), RowBlock{row, count, panel});
        panel += 2 * SplitBlocks::panel_floats(b_.steps);
      }
#endif
    } else {
      const bool crowded = b_.stride * sizeof(float) % cache_way_bytes == 0;
      for (std::size_t row = 0; row < args_.m;) {
        const std::size_t left = args_.m - row;
        const auto take = [&]<class Blocks>(std::type_identity<Blocks> blocks) HWY_ATTR {
          each(blocks, RowBlock{row, (std::min)(Blocks::rows, left), panel});
          row += Blocks::rows;
          panel += b_.steps * Blocks::step_floats;
        };
        const auto take_lines = [&]<class Blocks>(std::type_identity<Blocks> blocks) HWY_ATTR {
          if (crowded)
            take(std::type_identity<typename Blocks::Crowded>());
          else
            take(blocks);
        };
#if SOMA_HAS_PAIRED_PRODUCTS
        if (left <= PairedBlocks<Products, 2>::rows)
          take(std::type_identity<PairedBlocks<Products, 2>>());
        else if (left <= PairedBlocks<Products, 3>::rows)
          take(std::type_identity<PairedBlocks<Products, 3>>());
        else
          take_lines(std::type_identity<Lines>());
#else
        if constexpr (line_vectors == micro_vectors)
          take_lines(std::type_identity<Lines>());
        else if (left <= float_lanes)
          take_lines(std::type_identity<LineBlocks<Products, 1>>());
        else if (left <= Lines::rows || (LongLines::rows < left && left <= 2 * Lines::rows))
          take_lines(std::type_identity<Lines>());
        else
          take_lines(std::type_identity<LongLines>());
#endif
      }
    }
  }

  // The number of columns to take together: whole cache lines of c, so that threads do not share a
  // line, and (nearly) whole blocks.
  static constexpr std::size_t whole_blocks(std::size_t block) {
    std::size_t columns = line_floats;
    while ((round_up_to(columns, block) - columns) * 32 > columns) columns += line_floats;
    return columns;
  }
  std::size_t columns_together() const {
    if constexpr (splits) return micro_columns;
#if SOMA_HAS_PAIRED_PRODUCTS
    if (args_.m <= PairedBlocks<Products, 3>::rows)
      return whole_blocks(PairedBlocks<Products, 3>::columns);
#endif
    return whole_blocks(Lines::columns);
  }

  // Takes the next columns from the queue, in whole blocks. It takes fewer towards the end, so that
  // no thread waits long for another. If none are left, the result starts at column 0, which can be
  // read.
  Columns take(ColumnQueue& queue) const {
    const std::size_t unit = columns_together();
    const std::size_t most = FewRowsWorkspace::tile_columns / unit;
    std::size_t first = queue.next.load(std::memory_order_relaxed), count;
    do {
      const std::size_t left = args_.n - first;
      if (left == 0) return {0, 0};
      const std::size_t share = queue.workers == 1 ? left : left / (2 * queue.workers);
      count = (std::min)(left, (std::min)((std::max)(share / unit, std::size_t{1}), most) * unit);
    } while (!queue.next.compare_exchange_weak(first, first + count, std::memory_order_relaxed));
    return {first, count};
  }

  template <class Blocks>
  void pack(const RowBlock& rows, typename Source::Buffer& buffer) const {
    constexpr std::size_t most = pack_depth * Products::products;
    float* to = rows.panel;
    for (std::size_t k = 0; k < args_.k; k += most, to += pack_depth * Blocks::step_floats)
      Blocks::pack(a_,
                   {rows.first, rows.count, k, (std::min)(most, args_.k - k), to,
                    Blocks::panel_floats(b_.steps)},
                   buffer, workspace_.panel);
  }

  // Computes the sums of the tile. Columns from `next` on are prefetched, because they are
  // multiplied afterwards.
  template <class Blocks>
  void multiply(const RowBlock& rows, const Columns& columns, std::size_t next) const {
    Blocks blocks(b_, workspace_);
    for (std::size_t step = 0; step < b_.steps; step += Blocks::most_steps) {
      const std::size_t end = (std::min)(step + Blocks::most_steps, b_.steps);
      blocks.add({columns.first, step}, columns.count, end - step,
                 rows.panel + step * Blocks::step_floats,
                 end < b_.steps ? ColumnLines::Position{columns.first, end}
                                : ColumnLines::Position{next, 0},
                 rows.count);
    }
    blocks.turn(columns.first, columns.count, rows.count, workspace_.tile);
  }

  const GemmArgs& args_;
  const Source& a_;
  ColumnLines b_;
  FewRowsWorkspace workspace_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
