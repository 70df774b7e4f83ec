// Products by the bf16 tile instruction: the innermost loops, and the packing they want. Of each
// segment a lies in panels of 16 rows, [steps of 32 k][row][pair along k], and b in panels of 16
// columns, [pair along k][column], so that each tile is 1 KiB in one piece: loads of tiles whose
// rows lie apart were measured to take a quarter longer. Zeros follow the end of a segment, which
// change no sum.

#if defined(SOMA_KERNELS_GEMM_TILES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_TILES_INL_HPP
#undef SOMA_KERNELS_GEMM_TILES_INL_HPP
#else
#define SOMA_KERNELS_GEMM_TILES_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm_micro-inl.hpp>
#include <soma/kernels/gemm_workspace-inl.hpp>
#include <soma/kernels/pack_pairs-inl.hpp>
#include <soma/simd/bf16_tiles-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if SOMA_HAS_BF16_TILES

static_assert(micro_columns == 2 * tile_floats && tile_lines == tile_floats);
static_assert(float_lanes == tile_floats);
static_assert(pack_depth % tile_floats == 0 && tile_block_depth % tile_floats == 0);

namespace {  // internal linkage: units with other flags have their own

// A block of c of kTiles x 2 tiles: two tiles of a and two of b meet in four products, which take
// 16 cycles each while the loads of the next four tiles take 8. That is what eight registers allow.
template <int kTiles>
class TileKernel {
 public:
  static constexpr std::size_t rows = kTiles * tile_lines;

  // As MicroKernel::run(); `steps` of 32 k.
  HWY_NOINLINE HWY_MAYBE_UNUSED static void run(std::size_t steps, const float* HWY_RESTRICT a,
                                                const float* HWY_RESTRICT b, const SumPath& path,
                                                std::size_t block) {
    float* const sums = path.sums + block;
    if (path.from == nullptr)
      clear();
    else
      load(path.from + block, path.stride);
    constexpr std::size_t tile = tile_lines * tile_floats, stride = tile_floats * sizeof(float);
    const std::size_t panel = steps * tile;
    for (std::size_t i = 0; i < steps; ++i, a += tile, b += tile) {
      Tiles::load<6>(b, stride);
      Tiles::load<4>(a, stride);
      Tiles::multiply_add<0, 4, 6>();
      Tiles::load<7>(b + panel, stride);
      Tiles::multiply_add<1, 4, 7>();
      if constexpr (kTiles == 2) {
        Tiles::load<5>(a + panel, stride);
        Tiles::multiply_add<2, 5, 6>();
        Tiles::multiply_add<3, 5, 7>();
      }
    }
    store(sums, path.stride);
    if (path.addends != 0) join(sums, path.stride, sums, path);
  }

  // Neighbours in the tree join sums that are in memory, as tile registers cannot add, and the
  // result goes where the path has it, from `to` on.
  static HWY_INLINE void join(const float* sums, std::size_t stride, float* to,
                              const SumPath& path) {
    const Floats d;
    for (std::size_t i = 0; i < rows; ++i, sums += stride, to += path.stride)
      for (std::size_t j = 0; j < micro_columns; j += float_lanes) {
        FloatVector sum = hn::Load(d, sums + j);
        float* at = to + j;
        for (std::size_t addend = 0; addend < path.addends; ++addend)
          sum = hn::Add(hn::Load(d, at -= path.addend_distance), sum);
        hn::Store(sum, d, at);
      }
  }

 private:
  static HWY_INLINE void clear() {
    Tiles::clear<0>(), Tiles::clear<1>();
    if constexpr (kTiles == 2) Tiles::clear<2>(), Tiles::clear<3>();
  }
  static HWY_INLINE void load(const float* from, std::size_t stride) {
    const std::size_t bytes = stride * sizeof(float);
    Tiles::load<0>(from, bytes), Tiles::load<1>(from + tile_floats, bytes);
    if constexpr (kTiles == 2) {
      from += tile_lines * stride;
      Tiles::load<2>(from, bytes), Tiles::load<3>(from + tile_floats, bytes);
    }
  }
  static HWY_INLINE void store(float* to, std::size_t stride) {
    const std::size_t bytes = stride * sizeof(float);
    Tiles::store<0>(to, bytes), Tiles::store<1>(to + tile_floats, bytes);
    if constexpr (kTiles == 2) {
      to += tile_lines * stride;
      Tiles::store<2>(to, bytes), Tiles::store<3>(to + tile_floats, bytes);
    }
  }
};

// Products by tiles, for Gemm. Segments that are short are packed together, and meet in a tree of
// their own while a block of c is in the first-level cache.
class TilePanels {
 public:
  using Source = PairSource;
  using Buffer = PairBuffer;
  using Narrow = void;
  static constexpr std::size_t rows = tile_lines;
  static constexpr std::size_t block_rows = tile_block_rows;
  static constexpr std::size_t block_depth = 2 * tile_block_depth;

  // How many neighbouring segments are packed together: as many as have room wherever they are.
  static std::size_t group_of(const std::size_t* bounds, std::size_t segments) {
    std::size_t group = (std::min)(segments, most_grouped);
    const auto fits = [&] {
      for (std::size_t first = 0; first < segments; first += group)
        if (steps_of({bounds + first, group}) > tile_block_depth / tile_floats) return false;
      return true;
    };
    while (group > 1 && !fits()) group /= 2;
    return group;
  }

  static void pack_a(const Source& a, std::size_t row, std::size_t count, const PackedSteps& steps,
                     Buffer& buffer, float* out) {
    for_parts(steps, round_up_to(count, tile_lines), out, [&](const Part& part) {
      a.pack_blocks<tile_lines>(row, count, part.first, part.depth, part.panel, buffer, part.out);
    });
  }
  // Columns are rounded up to two panels: what the second has where there are none is never used.
  static void pack_b(const Source& b, std::size_t column, std::size_t count,
                     const PackedSteps& steps, Buffer& buffer, float* out) {
    for_parts(steps, round_up_to(count, micro_columns), out, [&](const Part& part) {
      b.pack_units<tile_floats, tile_floats>(column, count, part.first, part.depth, part.panel,
                                             buffer, part.out);
    });
  }
  static void multiply(std::size_t row_count, std::size_t columns, const PackedSteps& steps,
                       const float* a, const float* b, const SumPath& path) {
    for (std::size_t j = 0; j < columns; j += micro_columns)
      for (std::size_t i = 0; i < row_count; i += TileKernel<2>::rows) {
        const Block block{i, j, round_up_to(row_count, tile_lines),
                          round_up_to(columns, micro_columns)};
        if (row_count - i > tile_lines)
          sum_block<2>(block, steps, a, b, path);
        else
          sum_block<1>(block, steps, a, b, path);
      }
  }

 private:
  static constexpr std::size_t most_grouped = 16;

  struct Block {
    std::size_t row, column, rows, columns;  // rows and columns: of what is packed
  };

  // Of 32 k, the last of each segment filled up with zeros.
  static std::size_t steps_of(const PackedSteps& steps) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < steps.segments; ++i)
      count += (steps.bounds[i + 1] - steps.bounds[i] + tile_steps - 1) / tile_steps;
    return count;
  }

  // Steps of k that packing takes at once, and where panels of them begin.
  struct Part {
    std::size_t first, depth;
    float* out;
    std::size_t panel;  // floats between panels
  };
  template <class Each>
  static void for_parts(const PackedSteps& steps, std::size_t lines, float* out, const Each& each) {
    for (std::size_t i = 0; i < steps.segments; ++i) {
      const std::size_t length = steps_of({steps.bounds + i, 1});
      const std::size_t first = steps.bounds[i], end = steps.bounds[i + 1];
      for (std::size_t k = first; k < end; k += 2 * pack_depth)
        each({k, (std::min)(2 * pack_depth, end - k), out + (k - first) / 2 * tile_lines,
              length * tile_lines * tile_floats});
      out += length * lines * tile_floats;
    }
  }

  template <int kTiles>
  static void sum_block(const Block& block, const PackedSteps& steps, const float* a,
                        const float* b, const SumPath& path) {
    using Kernel = TileKernel<kTiles>;
    constexpr std::size_t block_floats = Kernel::rows * micro_columns;
    const std::size_t at = block.row * path.stride + block.column;
    if (steps.segments == 1) {
      const std::size_t length = steps_of(steps);
      return Kernel::run(length, a + block.row * length * tile_floats,
                         b + block.column * length * tile_floats, path, at);
    }
    alignas(64) float waiting[std::bit_width(most_grouped) * block_floats];
    std::size_t blocks = 0;
    for (std::size_t i = 0; i < steps.segments; ++i) {
      const std::size_t length = steps_of({steps.bounds + i, 1});
      const auto neighbours = static_cast<std::size_t>(std::countr_one(i));
      Kernel::run(
          length, a + block.row * length * tile_floats, b + block.column * length * tile_floats,
          {nullptr, waiting, neighbours, block_floats, micro_columns}, blocks * block_floats);
      blocks += 1 - neighbours;
      a += length * block.rows * tile_floats;
      b += length * block.columns * tile_floats;
    }
    Kernel::join(waiting, micro_columns, path.sums + at, path);
  }

  Tiles registers_;
};

}  // namespace

#endif

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
