// Packed operands of a product, and the sums of a block of its result. Short neighbouring segments
// of k are packed together; their sums are added in a tree of their own while a block of c is in
// the first-level cache.
//
// A Kernel is the innermost loop (VectorKernel, TileKernel). It takes a in panels of panel_rows
// rows and b in panels of panel_columns columns, step by step. A step is `depth` of k and takes
// row_floats or column_floats of a panel. Each segment begins with a new step directly after the
// steps of the segment before, so that panels are one stream from memory.
//
// run() computes a block of c with up to most_rows rows; run_rows() does the same from rows of a in
// place, if the Kernel `reads_rows`. If the Kernel `exits`, a run may end in an Exit (ExitPath);
// otherwise an Exit writes the sums after the run. Sums may be written late, at the latest by
// finish(). If the Kernel `keeps_rows`, the rows of a block stay in the first-level cache while
// columns change; otherwise columns stay while rows change.

#if defined(SOMA_KERNELS_GEMM_PANELS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_PANELS_INL_HPP
#undef SOMA_KERNELS_GEMM_PANELS_INL_HPP
#else
#define SOMA_KERNELS_GEMM_PANELS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>
#include <soma/kernels/gemm/workspace-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {  // internal linkage: units with other flags have their own

template <class Kernel>
class PackedPanels {
 public:
  using Source = typename Kernel::Source;
  using SourceOfB = typename Kernel::SourceOfB;
  using Buffer = typename Source::Buffer;
  using FewRows = typename Kernel::FewRows;
  using PackedRow = typename Kernel::PackedRow;
  static constexpr std::size_t panel_rows = Kernel::panel_rows, most_rows = Kernel::most_rows;
  static_assert(Kernel::packed_rows % most_rows == 0);
  static constexpr std::size_t packed_rows = Kernel::packed_rows, least_rows = Kernel::least_rows;
  static constexpr std::size_t packed_depth = Kernel::packed_steps * Kernel::depth;
  static constexpr std::size_t packed_floats = Kernel::packed_floats;
  static constexpr std::size_t whole_floats = Kernel::whole_floats;
  static constexpr std::size_t shared_floats = Kernel::shared_floats;
  // True if products are dot products, which Bf16Exit can write past the caches.
  static constexpr bool streams = Kernel::depth != 1;
  // The number of rows that are multiplied by all columns together.
  static constexpr std::size_t swept_rows = Kernel::keeps_rows ? most_rows : packed_rows;

  // The number of neighbouring segments to pack together: as many as fit in every place.
  static std::size_t group_of(const std::size_t* bounds, std::size_t segments) {
    std::size_t group = (std::min)(std::bit_floor(segments), PackedSteps::most_segments);
    const auto fits = [&] {
      for (std::size_t first = 0; first < segments; first += group)
        if (PackedSteps{bounds + first, group}.count(Kernel::depth) > Kernel::packed_steps)
          return false;
      return true;
    };
    while (group > 1 && !fits()) group /= 2;
    return group;
  }

  // The number of columns of b that fit in `floats` floats.
  static std::size_t most_columns(const PackedSteps& steps, std::size_t floats) {
    return floats / (steps.count(Kernel::depth) * Kernel::column_floats) * Kernel::panel_columns /
           micro_columns * micro_columns;
  }

  static std::size_t packed_b_floats(std::size_t columns, const PackedSteps& steps) {
    return panels_floats(columns, Kernel::panel_columns, steps.count(Kernel::depth),
                         Kernel::column_floats);
  }

  // Some of the rows or columns that are packed together.
  struct Lines {
    std::size_t first, count, packed;
  };

  // Rows of a that are multiplied by the same columns. The first `lying` rows, in whole blocks, are
  // read in place from `place` on, `stride` floats apart; the other rows are packed.
  struct RowBlock {
    std::size_t count, lying;
    const float* place;
    float* packed;
    std::size_t stride;
  };

  // The number of rows of a, of so many, that are multiplied by the same columns together: about
  // the same number each time, because columns come from memory for a few rows as slowly as for
  // many. If rows are laid and stay in the first-level cache, it is the number that fits there.
  static std::size_t rows_together(const Source& a, const PackedSteps& steps, std::size_t rows) {
    if constexpr (Kernel::keeps_rows)
      return are_whole(steps) && Kernel::lays(a, 0, 0) ? most_rows : packed_rows;
    return even_share(rows, packed_rows, most_rows);
  }

  // Prepares `count` rows of a from `row` on; `out` has room for packing all of them. Whole blocks
  // of rows are read in place, or copied row by row (laid), as the Kernel prefers.
  static RowBlock take_a(const Source& a, std::size_t row, std::size_t count,
                         const PackedSteps& steps, Buffer& buffer, float* out) {
    RowBlock rows{count, 0, nullptr, out, 0};
    if constexpr (Kernel::reads_rows)
      if (are_whole(steps)) {
        const std::size_t all = steps.count(Kernel::depth);
        const std::size_t apart = Kernel::laid_stride(all * Kernel::depth / 2);
        const std::size_t whole = count / most_rows * most_rows;
        if (const float* place = a.place(row, steps.bounds[0]);
            place != nullptr && Kernel::takes_rows(place, a.place_stride())) {
          rows = {count, whole, place, out, a.place_stride()};
        } else if (Kernel::lays(a, apart, all)) {
          a.lay(row, whole, steps.bounds[0], all * Kernel::depth, apart, out);
          rows = {count, whole, out, out + whole * apart, apart};
        }
      }
    const std::size_t rest = count - rows.lying, even = Kernel::even_rows(rest);
    const auto pack_rows = [&](std::size_t first, std::size_t lines, std::size_t place) HWY_ATTR {
      pack(a, steps, row + rows.lying + first, {place, lines, lines}, Kernel::panel_rows,
           Kernel::row_floats, rows.packed,
           [&](const PackPart& part) HWY_ATTR { Kernel::pack_a(a, part, buffer); });
    };
    pack_rows(0, rest - even, 0);
    for (std::size_t first = rest - even, place = first; first < rest; place += most_rows) {
      const std::size_t lines = Kernel::next_rows(rest - first);
      pack_rows(first, lines, place);
      first += lines;
    }
    return rows;
  }
  // The rows that are multiplied together, from `first` on.
  static RowBlock swept(const RowBlock& rows, std::size_t first, const PackedSteps& steps) {
    const std::size_t count = (std::min)(swept_rows, rows.count - first);
    if (first < rows.lying)
      return {count, (std::min)(count, rows.lying - first), rows.place + first * rows.stride,
              rows.packed, rows.stride};
    return {count, 0, nullptr,
            rows.packed + panels_floats(first - rows.lying, Kernel::panel_rows,
                                        steps.count(Kernel::depth), Kernel::row_floats),
            0};
  }
  // Packs columns of b from `column` on.
  static void pack_b(const SourceOfB& b, std::size_t column, const Lines& columns,
                     const PackedSteps& steps, Buffer& buffer, float* out) {
    pack(b, steps, column, columns, Kernel::panel_columns, Kernel::column_floats, out,
         [&](const PackPart& part) { Kernel::pack_b(b, part, buffer); });
  }

  // Computes sums on their path, block by block.
  void multiply(const RowBlock& rows, const Lines& columns, const PackedSteps& steps,
                const float* b, const SumPath& path) {
    for_blocks(rows.count, columns, [&](const Block& block) {
      const std::size_t end = block.row + block.count;
      fetch_sums<most_rows>(path, Kernel::keeps_rows  ? block.at(path) + micro_columns
                                  : end == rows.count ? block.column + micro_columns
                                                      : end * path.stride + block.column);
      sum_block(block, steps, rows, b, path.behind(block.at(path)));
    });
    kernel_.finish();
  }

  // Computes sums and writes them through an exit (Bf16Exit), block by block: the sums never leave
  // the first-level cache, or the registers.
  template <class Exit>
  void multiply_out(const RowBlock& rows, const Lines& columns, const PackedSteps& steps,
                    const float* b, const Exit& exit) {
    for_blocks(rows.count, columns, [&](const Block& block) {
      if constexpr (Kernel::exits) {
        sum_block(block, steps, rows, b,
                  ExitPath<Exit>{&exit, block.row, block.count, block.column});
      } else {
        alignas(64) float sums[block_floats];
        sum_block(block, steps, rows, b, SumPath{sums, micro_columns});
        exit.write(block.row, block.count, block.column, sums);
      }
    });
    kernel_.finish();
  }

 private:
  static constexpr std::size_t block_floats = most_rows * micro_columns;
  // True if every segment is a multiple of the kernel's depth.
  static bool are_whole(const PackedSteps& steps) {
    for (std::size_t i = 0; i < steps.segments; ++i)
      if ((steps.bounds[i + 1] - steps.bounds[i]) % Kernel::depth != 0) return false;
    return true;
  }

  // Floats of `lines` lines in panels of `width`, of which a step takes `floats`.
  static std::size_t panels_floats(std::size_t lines, std::size_t width, std::size_t steps,
                                   std::size_t floats) {
    return (lines + width - 1) / width * steps * floats;
  }

  // Calls each() for the lines and steps that are packed at a time, into panels of `width` lines
  // with `floats` floats a step.
  template <class AnySource, class Each>
  static void pack(const AnySource& source, const PackedSteps& steps, std::size_t first_line,
                   const Lines& lines, std::size_t width, std::size_t floats, float* out,
                   const Each& each) {
    static_assert(pack_depth % Kernel::depth == 0 && pack_direct_depth % Kernel::depth == 0);
    const std::size_t most = source.most_depth();
    const std::size_t panel = steps.count(Kernel::depth) * floats;
    for (std::size_t i = 0; i < steps.segments; ++i) {
      const std::size_t first = steps.bounds[i], end = steps.bounds[i + 1];
      for (std::size_t line = 0; line < lines.count; line += pack_lines) {
        const std::size_t count = (std::min)(pack_lines, lines.count - line);
        float* const to = out + (lines.first + line) / width * panel;
        for (std::size_t k = first; k < end; k += most)
          each({first_line + line, count, k, (std::min)(most, end - k),
                to + (k - first) / Kernel::depth * floats, panel});
      }
      out += steps.count(i, Kernel::depth) * floats;
    }
  }

  // A block of c: its rows and their number among the blocks, its first column.
  struct Block {
    std::size_t row, count, number, column;
    Lines columns;

    std::size_t at(const SumPath& path) const { return row * path.stride + column; }
  };

  template <class Each>
  static HWY_INLINE void for_blocks(std::size_t rows, const Lines& columns, const Each& each) {
    const auto for_rows = [&](const auto& each_rows) HWY_ATTR {
      for (std::size_t i = 0, number = 0; i < rows; ++number) {
        const std::size_t count = Kernel::next_rows(rows - i);
        each_rows(i, count, number);
        i += count;
      }
    };
    const auto for_columns = [&](const auto& each_column) HWY_ATTR {
      for (std::size_t j = 0; j < columns.count; j += micro_columns) each_column(j);
    };
    if constexpr (Kernel::keeps_rows) {
      for_rows([&](std::size_t i, std::size_t count, std::size_t number) HWY_ATTR {
        for_columns([&](std::size_t j) HWY_ATTR { each(Block{i, count, number, j, columns}); });
      });
    } else {
      // A panel of b stays in the first-level cache while all panels of a are multiplied by it.
      for_columns([&](std::size_t j) HWY_ATTR {
        for_rows([&](std::size_t i, std::size_t count, std::size_t number) HWY_ATTR {
          each(Block{i, count, number, j, columns});
        });
      });
    }
  }

  // Multiplies the panels, and prefetches the next panel of b, a part in each run of the first
  // rows; after that it prefetches the next rows of a.
  template <class Path>
  void sum_block(const Block& block, const PackedSteps& steps, const RowBlock& rows, const float* b,
                 const Path& path) {
    const std::size_t all = steps.count(Kernel::depth), panel = all * Kernel::row_floats;
    b += panels_floats(block.columns.first + block.column, Kernel::panel_columns, all,
                       Kernel::column_floats);
    const std::size_t run = block.number;
    constexpr std::size_t floats = micro_columns / Kernel::panel_columns * Kernel::column_floats;
    constexpr std::size_t part = Kernel::fetched_floats, parts = (floats + part - 1) / part;
    const float* const fetched = run < parts ? b + (floats + run * part) * all : nullptr;
    if constexpr (Kernel::reads_rows)
      if (block.row < rows.lying) {
        const float* const a = rows.place + block.row * rows.stride;
        const float* const ahead = fetched != nullptr ? fetched : a + most_rows * rows.stride;
        return kernel_.run_rows(steps, a, rows.stride, b, ahead, path);
      }
    // Each block begins with a panel of its own, also where blocks are lower.
    const float* const a = rows.packed + panels_floats(block.number * most_rows - rows.lying,
                                                       Kernel::panel_rows, all, Kernel::row_floats);
    kernel_.run(block.count, steps, a, b, fetched != nullptr ? fetched : a + panel, path);
  }

  // The kernel's state during a product. There are no braces, because they would fill the state
  // with zeros (TileSums).
  [[no_unique_address]] Kernel kernel_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
