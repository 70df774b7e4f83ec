// Products by the bf16 tile instruction: the innermost loop, and the packing it wants. Of each
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

#include <bit>
#include <cstddef>

#if SOMA_HAS_BF16_TILES
HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(micro_columns == 2 * tile_floats && tile_lines == tile_floats);
static_assert(float_lanes == tile_floats);
static_assert(pack_depth % tile_floats == 0 && tile_packed_steps % tile_floats == 0);

namespace {  // internal linkage: units with other flags have their own

// The Kernel of PackedPanels. A block of c is 2 x 2 tiles: two of a and two of b meet in four
// products, which take 16 cycles each while the loads of the next four tiles take 8. That is what
// eight registers allow. Where few rows are left, 1 x 2.
class TileKernel {
 public:
  using Source = PairSource;
  using Narrow = void;
  static constexpr std::size_t panel_rows = tile_lines, panel_columns = tile_floats;
  static constexpr std::size_t most_rows = 2 * tile_lines;
  static constexpr std::size_t row_floats = tile_lines * tile_floats;
  static constexpr std::size_t column_floats = tile_floats * tile_floats;
  static constexpr std::size_t depth = tile_steps;
  static constexpr bool reads_rows = false, exits = false;
  static constexpr std::size_t packed_rows = tile_packed_rows;
  static constexpr std::size_t packed_steps = tile_packed_steps / tile_floats;
  static constexpr std::size_t packed_floats = tile_packed_floats;
  static constexpr std::size_t shared_floats = tile_shared_floats;

  static void pack_a(const Source& a, const PackPart& part, PairBuffer& buffer) {
    a.pack_blocks<tile_lines>(part, buffer);
  }
  // A block of c has two panels of columns: what lies behind the last is read too and never used.
  static void pack_b(const Source& b, const PackPart& part, PairBuffer& buffer) {
    b.pack_units<tile_floats, tile_floats>(part, buffer);
  }

  // The block of c that begins `rows` rows before the end, as MicroKernel::run() has it.
  static void run(std::size_t rows, const PackedSteps& steps, const float* a, const float* b,
                  const float*, const SumPath& path) {
    if (rows > tile_lines)
      run<2>(steps, a, b, path);
    else
      run<1>(steps, a, b, path);
  }

 private:
  template <int kTiles>
  static void run(const PackedSteps& steps, const float* a, const float* b, const SumPath& path) {
    const std::size_t all = steps.count(depth);
    if (steps.segments == 1) return run<kTiles>(all, all, a, b, path);
    constexpr std::size_t block = most_rows * micro_columns;
    alignas(64) float waiting[std::bit_width(PackedSteps::most_segments) * block];
    float* to = waiting;
    for (std::size_t i = 0; i < steps.segments; ++i) {
      const std::size_t count = steps.count(i, depth);
      const SumPath part{to, micro_columns, true, static_cast<std::size_t>(std::countr_one(i)),
                         block};
      run<kTiles>(count, all, a, b, part);
      a += count * row_floats;
      b += count * column_floats;
      to = part.end() + block;
    }
    join_sums(kTiles * tile_lines, waiting, micro_columns, path);
  }
  // Some steps of panels that have `all`.
  template <int kTiles>
  HWY_NOINLINE HWY_MAYBE_UNUSED static void run(std::size_t steps, std::size_t all,
                                                const float* HWY_RESTRICT a,
                                                const float* HWY_RESTRICT b, const SumPath& path) {
    if (path.fresh)
      clear<kTiles>();
    else
      load<kTiles>(path.sums, path.stride);
    constexpr std::size_t tile = tile_lines * tile_floats, stride = tile_floats * sizeof(float);
    const std::size_t panel = all * tile;
    for (std::size_t i = 0; i < steps; ++i, a += tile, b += tile) {
      Tiles::load<4>(a, stride), Tiles::load<6>(b, stride), Tiles::load<7>(b + panel, stride);
      if constexpr (kTiles == 2) Tiles::load<5>(a + panel, stride);
      Tiles::multiply_add<0, 4, 6>(), Tiles::multiply_add<1, 4, 7>();
      if constexpr (kTiles == 2) Tiles::multiply_add<2, 5, 6>(), Tiles::multiply_add<3, 5, 7>();
    }
    store<kTiles>(path.sums, path.stride);
    // Tile registers cannot add.
    if (path.addends != 0) join_sums(kTiles * tile_lines, path.sums, path.stride, path);
  }
  // The end of a path for sums that are in memory, with rows `stride` floats apart: addends join
  // them, and the result goes where the path has it.
  HWY_NOINLINE HWY_MAYBE_UNUSED static void join_sums(std::size_t rows, const float* sums,
                                                      std::size_t stride, const SumPath& path) {
    const Floats d;
    float* to = path.sums;
    for (std::size_t i = 0; i < rows; ++i, sums += stride, to += path.stride)
      for (std::size_t j = 0; j < micro_columns; j += float_lanes) {
        FloatVector sum = hn::Load(d, sums + j);
        float* at = to + j;
        for (std::size_t addend = 0; addend < path.addends; ++addend)
          sum = hn::Add(hn::LoadU(d, at -= path.addend_distance), sum);
        hn::StoreU(sum, d, at);
      }
  }

  template <int kTiles>
  static HWY_INLINE void clear() {
    Tiles::clear<0>(), Tiles::clear<1>();
    if constexpr (kTiles == 2) Tiles::clear<2>(), Tiles::clear<3>();
  }
  template <int kTiles>
  static HWY_INLINE void load(const float* from, std::size_t stride) {
    const std::size_t bytes = stride * sizeof(float);
    Tiles::load<0>(from, bytes), Tiles::load<1>(from + tile_floats, bytes);
    if constexpr (kTiles == 2) {
      from += tile_lines * stride;
      Tiles::load<2>(from, bytes), Tiles::load<3>(from + tile_floats, bytes);
    }
  }
  template <int kTiles>
  static HWY_INLINE void store(float* to, std::size_t stride) {
    const std::size_t bytes = stride * sizeof(float);
    Tiles::store<0>(to, bytes), Tiles::store<1>(to + tile_floats, bytes);
    if constexpr (kTiles == 2) {
      to += tile_lines * stride;
      Tiles::store<2>(to, bytes), Tiles::store<3>(to + tile_floats, bytes);
    }
  }

  Tiles registers_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();
#endif

#endif
