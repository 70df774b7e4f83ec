// The workspace of a matrix product, and the part of the result that it holds at a time.

#if defined(SOMA_KERNELS_GEMM_WORKSPACE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_WORKSPACE_INL_HPP
#undef SOMA_KERNELS_GEMM_WORKSPACE_INL_HPP
#else
#define SOMA_KERNELS_GEMM_WORKSPACE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/args.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/bf16_pairs-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>
#include <soma/kernels/gemm/pack/fp32_split-inl.hpp>
#include <soma/simd/bf16_tiles-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

// The rows of a and the steps of k that are packed together. There are enough steps for all of k in
// most products, because between blocks of k all sums go to memory and back. There are so few rows
// that packed a stays in the second-level cache while all of b is multiplied: at most 512 KiB for
// vectors of 16 lanes, since such CPUs have 1 MiB or more, and 256 KiB for others. If rows of a are
// columns in memory, each visit to a page brings as many numbers as there are rows: 112 instead of
// 56 rows make gradients of weights over 4,096 tokens 1.03 to 1.06 times as fast on an AMD CPU.
inline constexpr std::size_t gemm_packed_rows =
    (float_lanes == 16 ? 112 : 56) / micro_rows * micro_rows;
inline constexpr std::size_t gemm_packed_steps = 1024;
// The floats of b that are packed together, 4 MiB: with more columns, a is packed less often. The
// columns come from the third-level cache, each panel while the one before it is multiplied.
inline constexpr std::size_t gemm_packed_floats = std::size_t{1} << 20;
// The same for threads that share packed b, if it has not all of k: 512 columns of 8,192 steps, or
// more columns of fewer steps.
inline constexpr std::size_t gemm_shared_floats = std::size_t{1} << 22;
// The same for bf16 tiles, whose products are an order of magnitude faster than the third-level
// cache. All of b is read for each 32 rows of a, so packed b must stay in the second-level cache:
// 768 KiB of its 2 MiB, because a CPU with busy neighbours delivered a quarter of the rate beyond
// half of it. a has 1,536 steps: then the sums of most products never wait in memory, which would
// cost more than packing a again. A step takes one float, as above.
inline constexpr std::size_t tile_packed_rows = 64, tile_packed_steps = 768;
inline constexpr std::size_t tile_packed_floats = std::size_t{3} << 16;
// If all of b is no more than 1.25 MiB, many rows are multiplied by all of b at once, so that they
// come from memory once. With 368 or 512 rows that is 0.92 to 1.01 times as fast. 8-bit rows are
// also looked up only once, which pays for fewer rows (737: 1.01 to 1.11, 368: 1.00 to 1.02, 184:
// 0.97 to 1.00).
inline constexpr std::size_t tile_whole_floats = std::size_t{5} << 16;
inline constexpr std::size_t tile_whole_rows = 1024, tile_whole_byte_rows = 256;
inline constexpr std::size_t tile_shared_floats = 0;  // never in parts: they come from too far
// The same for split fp32 numbers, which take 6 bytes and six products each: the products are slow
// enough for columns to come from the third-level cache, as above. 576 KiB of a, in the
// second-level cache.
inline constexpr std::size_t split_packed_rows = 128, split_packed_steps = 384;
// The floats of a tile, and of all tiles that wait for their neighbours in the tree. Each packed
// element serves a whole side of the tile, so packing costs little only if tiles are large: 2 and 4
// MiB. Tiles need not stay in the second-level cache, because their sums are prefetched.
inline constexpr std::size_t gemm_tile_floats = std::size_t{1} << 19;
inline constexpr std::size_t gemm_tree_floats = std::size_t{1} << 20;
inline constexpr std::size_t gemm_tile_columns = pack_lines;
// Added to a power of two: otherwise the rows of a tile would share few sets of the first-level
// cache.
inline constexpr std::size_t gemm_tile_padding = 16;
static_assert(gemm_tile_columns % micro_columns == 0);

static constexpr std::size_t round_up_to(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// The part of `total` that a tile takes if all tiles are about equal, a multiple of `unit` as
// `most` is.
static constexpr std::size_t even_share(std::size_t total, std::size_t most, std::size_t unit) {
  const std::size_t tiles = (total + most - 1) / most;
  return round_up_to((total + tiles - 1) / tiles, unit);
}

// The number of tiles that exist at once: one for each digit of the binary counter.
static constexpr std::size_t gemm_levels(std::size_t segments) {
  return static_cast<std::size_t>(std::bit_width((std::max)(segments, std::size_t{1})));
}

// Enough for every number of segments that a std::size_t can count.
inline constexpr std::size_t gemm_most_levels = 64;

// The room for one tile; at least a row of micro-tiles.
static constexpr std::size_t gemm_tile_capacity(std::size_t levels) {
  return (std::max)((std::min)(gemm_tile_floats, gemm_tree_floats / levels),
                    micro_rows * (gemm_tile_columns + gemm_tile_padding));
}

// The room for the tiles of all levels. The result never decreases with the number of levels.
static constexpr std::size_t gemm_tiles_capacity(std::size_t levels) {
  return levels == 1 ? gemm_tile_capacity(1)
                     : (std::max)(gemm_tree_floats, levels * gemm_tile_capacity(levels));
}

static_assert(tile_packed_steps <= gemm_packed_steps && tile_packed_floats <= gemm_packed_floats &&
              tile_whole_floats <= gemm_packed_floats);

namespace {  // internal linkage: units with other flags have their own

// The offsets of the parts of a workspace. They are the same for all kinds of products, because
// operands that tiles cannot multiply use another kind.
struct GemmWorkspace {
  float *a, *b, *tiles;
  std::byte* pack;  // a buffer of the operands' source

  // The bytes of the parts. They never decrease if an argument grows.
  struct Sizes {
    std::size_t pack, a, b, tiles;
    explicit Sizes(const GemmArgs& args, bool packs_b = true) {
      const std::size_t k = args.k, segments = args.segments.count;
      const bool in_tiles = args.in_tiles();
      const std::size_t in_lines = round_up_to(args.m, tile_lines);
      const std::size_t rows = (std::max)(round_up_to(args.m, micro_rows), in_tiles ? in_lines : 0);
      const std::size_t columns = round_up_to(args.n, micro_columns);
      const std::size_t levels = gemm_levels(segments);
      // Each segment ends with a step of its own; products with a chosen accumulator need at least
      // pack_depth steps.
      const std::size_t steps = (std::max)(k + segments * tile_floats, pack_depth);
      const std::size_t packed_steps = (std::min)(steps, gemm_packed_steps);
      // If b is packed already but parts of k are not, the sums of all columns wait.
      const std::size_t least_block = in_tiles ? 2 * split_packed_steps : gemm_packed_steps;
      const bool all_wait = !packs_b && steps > least_block;
      const std::size_t tile_columns =
          (all_wait ? columns : (std::min)(columns, gemm_tile_columns)) + gemm_tile_padding;
      pack = round_up_to((std::max)(sizeof(PackBuffer), sizeof(PairBuffer)), 64);
#if SOMA_HAS_BF16_TILES
      static_assert(sizeof(SplitBuffer) <= sizeof(PairBuffer));
#endif
      a = floats((std::min)(rows, gemm_packed_rows) / micro_rows * micro_row_width * packed_steps);
      std::size_t all_b = columns * packed_steps;
#if SOMA_HAS_BF16_TILES
      if (in_tiles) {
        const std::size_t split_floats =
            split_parts * (std::min)((k / tile_steps + segments) * tile_floats, split_packed_steps);
        a = (std::max)({a,
                        floats((std::min)(in_lines, tile_packed_rows) *
                               ((std::min)(steps, tile_packed_steps) + line_floats)),
                        floats((std::min)(in_lines, split_packed_rows) * split_floats)});
        all_b = (std::max)(all_b, columns * split_floats);
      }
#endif
      b = packs_b ? floats((std::min)(all_b, gemm_packed_floats)) : 0;
      tiles = floats((std::min)(levels * rows * tile_columns, gemm_tiles_capacity(levels)));
    }
    static std::size_t floats(std::size_t count) { return round_up_to(count * sizeof(float), 64); }
    std::size_t all() const { return pack + a + b + tiles; }
  };

  explicit GemmWorkspace(const GemmArgs& args) {
    const Sizes sizes(args, args.packed_b.data == nullptr);
    std::byte* from = args.workspace;
    pack = from;
    a = reinterpret_cast<float*>(from += sizes.pack);
    b = reinterpret_cast<float*>(from += sizes.a);
    tiles = reinterpret_cast<float*>(from += sizes.b);
  }
};

// The position of a tile in c, and the layout of its sums in the workspace.
struct GemmTile {
  std::size_t row, column, rows, columns;
  std::size_t stride;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
