// The gemm family of the kernel table: c is cut into tiles that stay in the second-level cache as
// fp32 while k passes by, block by block, and leave through the eviction (evict-inl.hpp). Blocks of
// a and b are packed (pack-inl.hpp) for the innermost loop (gemm_micro-inl.hpp).
//
// A sum waits in its tile between blocks of k, in fp32, so blocking never shows in a result.

#if defined(SOMA_KERNELS_GEMM_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_INL_HPP
#undef SOMA_KERNELS_GEMM_INL_HPP
#else
#define SOMA_KERNELS_GEMM_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/evict-inl.hpp>
#include <soma/kernels/gemm_args.hpp>
#include <soma/kernels/gemm_micro-inl.hpp>
#include <soma/kernels/gemm_narrow-inl.hpp>
#include <soma/kernels/gemm_study-inl.hpp>
#include <soma/kernels/gemm_workspace-inl.hpp>
#include <soma/kernels/pack-inl.hpp>
#include <soma/kernels/pack_pairs-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <new>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Products>
using PackedFrom = std::conditional_t<Products::products == 1, PackSource, PairSource>;

namespace {  // internal linkage: units with other flags have their own

template <class Products>
class Gemm {
  using Source = PackedFrom<Products>;
  using Narrow = NarrowProduct<Products, Source>;

 public:
  explicit Gemm(const GemmArgs& args)
      : args_(args),
        whole_{0, args.k},
        bounds_(args.segments.bounds != nullptr ? args.segments.bounds : whole_),
        segments_(args.segments.bounds != nullptr ? args.segments.count : 1),
        a_(args.a, args.m, args.a.row_stride, args.a.column_stride),
        b_(args.b, args.n, args.b.column_stride, args.b.row_stride),
        workspace_(args.workspace, args.m, args.n, segments_),
        buffer_(new (workspace_.pack) typename Source::Buffer),
        evictor_(args.c, args.eviction) {}

  void run() {
    const std::size_t columns = even_share(args_.n, gemm_tile_columns, micro_columns);
    const std::size_t stride = columns + gemm_tile_padding;
    const std::size_t capacity = gemm_tile_capacity(gemm_levels(segments_));
    const std::size_t rows =
        even_share(args_.m, capacity / stride / micro_rows * micro_rows, micro_rows);
    tile_floats_ = rows * stride;
    for (std::size_t column = 0; column < args_.n; column += columns)
      for (std::size_t row = 0; row < args_.m; row += rows) {
        const GemmTile tile{row, column, (std::min)(rows, args_.m - row),
                            (std::min)(columns, args_.n - column), stride};
        if (Narrow::takes(args_, tile.columns)) {
          Narrow(args_, a_, *buffer_, workspace_.b)
              .run(column, tile.columns, workspace_.tiles, stride);
          finish_rows(tile, 0, tile.rows);
        } else {
          sum_tile(tile);
        }
      }
  }

 private:
  // The tree of Segments as a binary counter: one tile waits at each level until its neighbour is
  // there. The sum of all ends in the first. An empty segment is a term of zeros, which needs no
  // tile: all it can change is -0, once.
  void sum_tile(const GemmTile& tile) {
    bool full[gemm_most_levels] = {};    // what waits, level by level: tiles, or nothing
    std::size_t waiting = 0, tiles = 0;  // levels, and tiles on them
    const bool any_empty = has_empty_segment();
    for (std::size_t segment = 0; segment < segments_; ++segment) {
      const bool empty = bounds_[segment] == bounds_[segment + 1];
      // Each trailing one of the segment's number is a neighbour that waits, the nearest last.
      std::size_t neighbours = 0;
      for (auto i = static_cast<std::size_t>(std::countr_one(segment)); i != 0; --i)
        neighbours += full[--waiting] ? 1u : 0u;
      if (!empty) {
        // They are added while the segment's own sums are in registers.
        sum_segment(tile, segment, workspace_.tiles + tiles * tile_floats_, neighbours,
                    !any_empty && segment + 1 == segments_);
        tiles += 1 - neighbours;
      } else {
        for (; neighbours > 1; --neighbours) add_last(tile, --tiles);
      }
      full[waiting++] = !empty || neighbours != 0;
    }
    if (!any_empty) return;
    add_zero(tile, tiles == 0);
    finish_rows(tile, 0, tile.rows);
  }

  bool has_empty_segment() const {
    return std::adjacent_find(bounds_, bounds_ + segments_ + 1) != bounds_ + segments_ + 1;
  }

  // `final`: the sums are those of the product then, and leave.
  void sum_segment(const GemmTile& tile, std::size_t segment, float* sums, std::size_t neighbours,
                   bool final) {
    constexpr std::size_t block = pack_depth * Products::products;
    const std::size_t first = bounds_[segment], end = bounds_[segment + 1];
    for (std::size_t k = first; k < end; k += block) {
      const std::size_t depth = (std::min)(block, end - k);
      const bool last = depth == end - k;
      add_block(
          tile, k, depth,
          {k == first ? nullptr : sums, sums, last ? neighbours : 0, tile_floats_, tile.stride},
          final && last);
    }
  }

  // The tile behind `tiles` joins the one before it.
  void add_last(const GemmTile& tile, std::size_t tiles) {
    float* last = workspace_.tiles + tiles * tile_floats_;
    for (std::size_t row = 0; row < tile.rows * tile.stride; row += tile.stride)
      add_in_place(last + row, tile.columns, last - tile_floats_ + row);
  }

  void add_zero(const GemmTile& tile, bool nothing_else) {
    alignas(64) static constexpr float zeros[gemm_tile_columns] = {};
    for (std::size_t row = 0; row < tile.rows * tile.stride; row += tile.stride)
      if (nothing_else)
        std::fill_n(workspace_.tiles + row, tile.columns, 0.0f);
      else
        add_in_place(zeros, tile.columns, workspace_.tiles + row);
  }

  // Sums of rows of the tile, from its row `first` on, leave for c.
  void finish_rows(const GemmTile& tile, std::size_t first, std::size_t rows) {
    float* sums = workspace_.tiles + first * tile.stride;
    const float factor = a_.factor() * b_.factor();  // what packing left out
    if (args_.factor != nullptr)
      *args_.factor = factor;
    else if (factor != 1)
      for (std::size_t row = 0; row < rows; ++row)
        multiply(sums + row * tile.stride, tile.columns, factor);
    evictor_.evict(tile.row + first, tile.column, rows, tile.columns, sums, tile.stride);
  }

  // Where `final`, rows leave while their sums are still in the second-level cache.
  void add_block(const GemmTile& tile, std::size_t first, std::size_t depth, const SumPath& path,
                 bool final) {
    b_.template pack<micro_columns, micro_columns>(tile.column, tile.columns, first, depth,
                                                   *buffer_, workspace_.b);
    for (std::size_t row = 0; row < tile.rows; row += gemm_block_rows) {
      const std::size_t rows = (std::min)(gemm_block_rows, tile.rows - row);
      a_.template pack<micro_rows, micro_row_width>(tile.row + row, rows, first, depth, *buffer_,
                                                    workspace_.a);
      const std::size_t at = row * tile.stride;
      multiply_panels<Products>(rows, tile.columns,
                                (depth + Products::products - 1) / Products::products, workspace_.a,
                                workspace_.b,
                                {path.from != nullptr ? path.from + at : nullptr, path.sums + at,
                                 path.addends, path.addend_distance, path.stride});
      if (final) finish_rows(tile, row, rows);
    }
  }

  const GemmArgs& args_;
  std::size_t whole_[2];
  const std::size_t* bounds_;
  std::size_t segments_, tile_floats_ = 0;
  Source a_, b_;
  GemmWorkspace workspace_;
  typename Source::Buffer* buffer_;
  Evictor evictor_;
};

}  // namespace

static inline void gemm_kernel(const GemmArgs& args) noexcept {
  if (args.m == 0 || args.n == 0) return;
  if (!args.accumulation.plain()) return GemmStudy(args).run();
#if SOMA_HAS_BF16_DOT
  if (args.bf16_products == Bf16Products::dot_instruction && PairSource::takes(args.a) &&
      PairSource::takes(args.b))
    return Gemm<Bf16Dot>(args).run();
#endif
  Gemm<FusedMultiplyAdd>(args).run();
}

static constexpr GemmKernels gemm_kernels{gemm_kernel, gemm_workspace_bytes, micro_rows,
                                          micro_columns};

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
