// The workspace of a matrix product, and how much of the result is in it at a time.

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
namespace soma {
namespace HWY_NAMESPACE {

// Rows of a and steps of k that are packed together: so many steps that most products need no
// more, since between blocks of k all sums go to memory and back, and so few rows that what is
// packed of a stays in the second-level cache while all of b passes: at most 512 KiB where vectors
// have 16 lanes, as such parts have 1 MiB or more, and 256 KiB elsewhere. Where rows of a are
// columns in memory, each visit of a page brings as many numbers as there are rows: 112 instead of
// 56 make gradients of weights over 4,096 tokens 1.03 to 1.06 times as fast on an AMD part.
inline constexpr std::size_t gemm_packed_rows =
    (float_lanes == 16 ? 112 : 56) / micro_rows * micro_rows;
inline constexpr std::size_t gemm_packed_steps = 1024;
// Floats of b that are packed together, 4 MiB: the more columns, the less often a is packed. They
// come from the third-level cache, each panel while the one before it is multiplied.
inline constexpr std::size_t gemm_packed_floats = std::size_t{1} << 20;
// The same for threads that share them where they are not all of k: 512 columns of 8,192 steps, or
// more of fewer.
inline constexpr std::size_t gemm_shared_floats = std::size_t{1} << 22;
// The same for bf16 tiles, whose products are an order of magnitude faster than the third-level
// cache. All of b passes each 32 rows of a, so packed b stays in the second-level cache: 768 KiB of
// its 2 MiB, because a CPU with busy neighbours delivered a quarter of the rate beyond half of it.
// For a, 1,536 steps: sums of most products then never wait in memory, which would cost more than
// packing a again. A step takes one float's place, as above.
inline constexpr std::size_t tile_packed_rows = 64, tile_packed_steps = 768;
inline constexpr std::size_t tile_packed_floats = std::size_t{3} << 16;
// Many rows meet all of b at once where it is no more than 1.25 MiB: they come from memory once.
// With 368 or 512 rows that is 0.92 to 1.01 times as fast. 8-bit ones are looked up once, too,
// which pays for fewer rows (737: 1.01 to 1.11, 368: 1.00 to 1.02, 184: 0.97 to 1.00).
inline constexpr std::size_t tile_whole_floats = std::size_t{5} << 16;
inline constexpr std::size_t tile_whole_rows = 1024, tile_whole_byte_rows = 256;
inline constexpr std::size_t tile_shared_floats = 0;  // never in parts: they come from too far
// The same for split fp32 numbers, which take 6 bytes and six products each: slow enough for
// columns to come from the third-level cache, as above. 576 KiB of a, from the second-level cache.
inline constexpr std::size_t split_packed_rows = 128, split_packed_steps = 384;
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

// Enough for every number of segments that a size can count.
inline constexpr std::size_t gemm_most_levels = 64;

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

static_assert(tile_packed_steps <= gemm_packed_steps && tile_packed_floats <= gemm_packed_floats &&
              tile_whole_floats <= gemm_packed_floats);

namespace {  // internal linkage: units with other flags have their own

// Where the parts of a workspace are; the same for all kinds of products, since operands that tiles
// do not take go another way.
struct GemmWorkspace {
  float *a, *b, *tiles;
  std::byte* pack;  // a buffer of the operands' source

  // Bytes of the parts; never less for larger arguments.
  struct Sizes {
    std::size_t pack, a, b, tiles;
    explicit Sizes(const GemmArgs& args, bool packs_b = true) {
      const std::size_t k = args.k, segments = args.segments.count;
      const bool in_tiles = args.in_tiles();
      const std::size_t in_lines = round_up_to(args.m, tile_lines);
      const std::size_t rows = (std::max)(round_up_to(args.m, micro_rows), in_tiles ? in_lines : 0);
      const std::size_t columns = round_up_to(args.n, micro_columns);
      const std::size_t levels = gemm_levels(segments);
      // Each segment ends with a step of its own; the way for study wants as much as pack_depth.
      const std::size_t steps = (std::max)(k + segments * tile_floats, pack_depth);
      const std::size_t packed_steps = (std::min)(steps, gemm_packed_steps);
      // Sums of all columns wait where b is packed already and parts of k are not.
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

// Where a tile lies in c, and how its sums lie in the workspace.
struct GemmTile {
  std::size_t row, column, rows, columns;
  std::size_t stride;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
