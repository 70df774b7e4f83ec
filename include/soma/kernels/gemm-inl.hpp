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
#include <soma/kernels/pack-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <new>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of a that are packed together: with pack_depth steps of k 96 KiB, which stay in the
// second-level cache while all panels of b pass.
inline constexpr std::size_t gemm_block_rows = 112 / micro_rows * micro_rows;
// Floats of a tile, and of all that wait for their neighbours in the tree. Each element that is
// packed serves a whole side of the tile, so packing costs little only if tiles are large: 2 and 4
// MiB. They need not stay in the second-level cache: what is read of them is fetched ahead.
inline constexpr std::size_t gemm_tile_floats = std::size_t{1} << 19;
inline constexpr std::size_t gemm_tree_floats = std::size_t{1} << 20;
inline constexpr std::size_t gemm_tile_columns = pack_lines;
// Apart from a power of two: rows of a tile would share few sets of the first-level cache.
inline constexpr std::size_t gemm_tile_padding = 16;
static_assert(gemm_tile_columns % micro_columns == 0);

static constexpr std::size_t round_up_to(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// How much of `total` a tile takes when all are about equal, a multiple of `unit` as `most` is.
static constexpr std::size_t even_share(std::size_t total, std::size_t most, std::size_t unit) {
  const std::size_t tiles = (total + most - 1) / most;
  return round_up_to((total + tiles - 1) / tiles, unit);
}

// Tiles that are alive at once: one for each digit of the binary counter.
static constexpr std::size_t gemm_levels(std::size_t segments) {
  return static_cast<std::size_t>(std::bit_width((std::max)(segments, std::size_t{1})));
}

// Room for one tile; at least a row of micro-tiles.
static constexpr std::size_t gemm_tile_capacity(std::size_t levels) {
  return (std::max)((std::min)(gemm_tile_floats, gemm_tree_floats / levels),
                    micro_rows * (gemm_tile_columns + gemm_tile_padding));
}

// Room for the tiles of all levels; never less for more of them.
static constexpr std::size_t gemm_tiles_capacity(std::size_t levels) {
  return levels == 1 ? gemm_tile_capacity(1)
                     : (std::max)(gemm_tree_floats, levels * gemm_tile_capacity(levels));
}

namespace {  // internal linkage: units with other flags have their own

struct GemmWorkspace {
  float *a, *b, *tiles;
  PackBuffer* pack;

  // Bytes of the parts; never less for larger arguments.
  struct Sizes {
    std::size_t pack, a, b, tiles;
    Sizes(std::size_t m, std::size_t n, std::size_t segments) {
      const std::size_t rows = round_up_to(m, micro_rows), columns = round_up_to(n, micro_columns);
      const std::size_t levels = gemm_levels(segments);
      const std::size_t tile_columns = (std::min)(columns, gemm_tile_columns) + gemm_tile_padding;
      pack = round_up_to(sizeof(PackBuffer), 64);
      a = floats((std::min)(rows, gemm_block_rows) / micro_rows * micro_row_width * pack_depth);
      b = floats((std::min)(columns, gemm_tile_columns) * pack_depth);
      tiles = floats((std::min)(levels * rows * tile_columns, gemm_tiles_capacity(levels)));
    }
    static std::size_t floats(std::size_t count) { return round_up_to(count * sizeof(float), 64); }
  };

  GemmWorkspace(std::byte* from, std::size_t m, std::size_t n, std::size_t segments) {
    const Sizes sizes(m, n, segments);
    pack = new (from) PackBuffer;
    a = reinterpret_cast<float*>(from += sizes.pack);
    b = reinterpret_cast<float*>(from += sizes.a);
    tiles = reinterpret_cast<float*>(from += sizes.b);
  }
};

// Where a tile lies in c, and how its sums lie in the workspace.
struct GemmTile {
  std::size_t row, column, rows, columns;
  std::size_t stride;
};

class Gemm {
 public:
  explicit Gemm(const GemmArgs& args)
      : args_(args),
        whole_{0, args.k},
        bounds_(args.segments.bounds != nullptr ? args.segments.bounds : whole_),
        segments_(args.segments.bounds != nullptr ? args.segments.count : 1),
        a_(args.a, args.m, args.a.row_stride, args.a.column_stride),
        b_(args.b, args.n, args.b.column_stride, args.b.row_stride),
        workspace_(args.workspace, args.m, args.n, segments_),
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
        sum_tile(tile);
        evictor_.evict(row, column, tile.rows, tile.columns, workspace_.tiles, stride);
      }
  }

 private:
  // The tree of Segments as a binary counter: one tile waits at each level until its neighbour is
  // there. The sum of all ends in the first.
  void sum_tile(const GemmTile& tile) {
    std::size_t waiting = 0;
    for (std::size_t segment = 0; segment < segments_; ++segment) {
      const std::size_t first = bounds_[segment], end = bounds_[segment + 1];
      float* sums = workspace_.tiles + waiting * tile_floats_;
      ++waiting;
      // Each trailing one of the segment's number is a neighbour that waits. The first is added
      // while the segment's own sums are still in registers.
      std::size_t left = segment;
      float* neighbour = (left & 1) != 0 && first != end ? sums - tile_floats_ : nullptr;
      sum_segment(tile, first, end, sums, neighbour);
      if (neighbour != nullptr) {
        --waiting;
        left >>= 1;
      }
      for (; (left & 1) != 0; left >>= 1) {
        --waiting;
        sums = workspace_.tiles + waiting * tile_floats_;
        for (std::size_t row = 0; row < tile.rows * tile.stride; row += tile.stride)
          add_in_place(sums + row, tile.columns, sums - tile_floats_ + row);
      }
    }
  }

  // The sums of a segment, which end in `sums`, or added to the neighbour's in their place.
  void sum_segment(const GemmTile& tile, std::size_t first, std::size_t end, float* sums,
                   float* neighbour) {
    if (first == end)
      for (std::size_t row = 0; row < tile.rows; ++row)
        std::fill_n(sums + row * tile.stride, tile.columns, 0.0f);
    for (std::size_t k = first; k < end; k += pack_depth) {
      const std::size_t depth = (std::min)(pack_depth, end - k);
      const bool last = depth == end - k && neighbour != nullptr;
      const SumPath path{k == first ? nullptr : sums, last ? neighbour : nullptr,
                         last ? neighbour : sums, tile.stride};
      add_block(tile, k, depth, path);
    }
  }

  void add_block(const GemmTile& tile, std::size_t first, std::size_t depth, const SumPath& path) {
    b_.pack<micro_columns, micro_columns>(tile.column, tile.columns, first, depth, *workspace_.pack,
                                          workspace_.b);
    for (std::size_t row = 0; row < tile.rows; row += gemm_block_rows) {
      const std::size_t rows = (std::min)(gemm_block_rows, tile.rows - row);
      a_.pack<micro_rows, micro_row_width>(tile.row + row, rows, first, depth, *workspace_.pack,
                                           workspace_.a);
      const std::size_t at = row * tile.stride;
      multiply_panels(
          rows, tile.columns, depth, workspace_.a, workspace_.b,
          {path.from != nullptr ? path.from + at : nullptr,
           path.addend != nullptr ? path.addend + at : nullptr, path.to + at, tile.stride});
    }
  }

  const GemmArgs& args_;
  std::size_t whole_[2];
  const std::size_t* bounds_;
  std::size_t segments_, tile_floats_ = 0;
  PackSource a_, b_;
  GemmWorkspace workspace_;
  Evictor evictor_;
};

}  // namespace

static inline std::size_t gemm_workspace_bytes(std::size_t m, std::size_t n,
                                               std::size_t segments) noexcept {
  const GemmWorkspace::Sizes sizes(m, n, segments);
  return sizes.pack + sizes.a + sizes.b + sizes.tiles;
}

static inline void gemm_kernel(const GemmArgs& args) noexcept {
  if (args.m != 0 && args.n != 0) Gemm(args).run();
}

static constexpr GemmKernels gemm_kernels{gemm_kernel, gemm_workspace_bytes, micro_rows,
                                          micro_columns};

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
