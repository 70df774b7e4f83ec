// Products by the bf16 tile instruction: the innermost loop, and its packing. Each segment of a is
// packed in panels of 16 rows, [steps of 32 k][row][pair along k], and each segment of b in panels
// of 16 columns, [pair along k][column], so that each tile is 1 KiB of adjacent memory. Zeros pad
// the end of a segment and change no sum. Rows of a that are whole cache lines are not packed: they
// stay in the first-level cache, where loading separate rows is as fast. Numbers that are not exact
// in bf16 are split (gemm/pack/fp32_split-inl.hpp), with three tiles in place of one.

#if defined(SOMA_KERNELS_GEMM_TILES_TILES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_TILES_TILES_INL_HPP
#undef SOMA_KERNELS_GEMM_TILES_TILES_INL_HPP
#else
#define SOMA_KERNELS_GEMM_TILES_TILES_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/epilogue-inl.hpp>
#include <soma/kernels/gemm/few_rows/few_rows-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/bf16_pairs-inl.hpp>
#include <soma/kernels/gemm/pack/fp32_split-inl.hpp>
#include <soma/kernels/gemm/tiles/split_step-inl.hpp>
#include <soma/kernels/gemm/tiles/sums-inl.hpp>
#include <soma/kernels/gemm/workspace-inl.hpp>
#include <soma/simd/bf16_tiles-inl.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#if SOMA_HAS_BF16_TILES
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(micro_columns == 2 * tile_floats && tile_lines == tile_floats);
static_assert(float_lanes == tile_floats);
static_assert(pack_depth % tile_floats == 0 && tile_packed_steps % tile_floats == 0);

namespace {  // internal linkage: units with other flags have their own

// The Kernel of PackedPanels for bf16 numbers or, with kParts = 3, for split ones. A block of c is
// 2 x 2 tiles: two tiles of a and two of b make four products, which take 16 cycles each, while
// loading the next four tiles takes 8. Eight registers allow no larger block. If few rows are left,
// a block is 1 x 2.
//
// From the second-level cache the loads take 22 cycles. So the rows of a block stay in the
// first-level cache, as far as there is room, while all columns are multiplied by them, and other
// loads do not displace them. Split numbers have so many products that all loads may come from the
// second-level cache.
template <std::size_t kParts>
class TileKernel {
  static constexpr bool splits = kParts != 1;
  static_assert(kParts == 1 || kParts == split_parts);

 public:
  using Source = std::conditional_t<splits, SplitSource, PairSource>;
  using SourceOfB = Source;
  using FewRows = std::conditional_t<splits, FewRowsProduct<SplitProducts, SplitSource>, void>;
  using PackedRow = void;
  static constexpr std::size_t panel_rows = tile_lines, panel_columns = tile_floats;
  static constexpr std::size_t most_rows = 2 * tile_lines;
  static constexpr std::size_t row_floats = kParts * tile_lines * tile_floats;
  static constexpr std::size_t column_floats = kParts * tile_floats * tile_floats;
  // The floats of the next panel that a step prefetches.
  static constexpr std::size_t fetched_floats = splits ? 18 * line_floats : row_floats;
  static constexpr std::size_t depth = tile_steps;
  static constexpr bool reads_rows = !splits, exits = true, keeps_rows = !splits;
  static constexpr std::size_t packed_rows = splits ? split_packed_rows : tile_packed_rows;
  // Split columns come from the third-level cache, so all rows that are packed together are
  // multiplied by them at once.
  static constexpr std::size_t least_rows = splits ? packed_rows : most_rows;
  static constexpr std::size_t packed_steps =
      (splits ? split_packed_steps : tile_packed_steps) / tile_floats;
  static constexpr std::size_t packed_floats = splits ? gemm_packed_floats : tile_packed_floats;
  static constexpr std::size_t whole_floats = splits ? packed_floats : tile_whole_floats;
  static constexpr std::size_t shared_floats = splits ? gemm_shared_floats : tile_shared_floats;

  static constexpr std::size_t even_rows(std::size_t) { return 0; }
  static constexpr std::size_t next_rows(std::size_t left) { return (std::min)(left, most_rows); }
  static void pack_a(const Source& a, const PackPart& part, typename Source::Buffer& buffer) {
    if constexpr (splits)
      a.pack_a(part, buffer);
    else
      a.template pack_blocks<tile_lines>(part, buffer);
  }
  // A block of c has two panels of columns. The data after the last panel are read too and never
  // used.
  static void pack_b(const Source& b, const PackPart& part, typename Source::Buffer& buffer) {
    if constexpr (splits)
      b.pack_b(part, buffer);
    else
      b.template pack_units<tile_floats, tile_floats>(part, buffer);
  }

  // True if rows are read in place, `stride` floats apart: their length must be whole cache lines.
  static bool takes_rows(const float* first, std::size_t stride) {
    return reinterpret_cast<std::uintptr_t>(first) % line_bytes == 0 && stride % line_floats == 0;
  }
  // The floats between rows that are copied one after another (laid), so that both tiles of a block
  // can stay in the first-level cache.
  static std::size_t laid_stride(std::size_t floats) {
    const std::size_t stride = round_up_to(floats, line_floats);
    return near_steps(near_tiles, set_distance(stride)).both != 0 ? stride : stride + line_floats;
  }
  // True if rows that are not read in place are laid: rows of bytes, whose numbers have to be
  // looked up anyway. The workspace has an extra cache line for each row. Rows of other types are
  // packed, which is as much work and quicker to read.
  static bool lays(const Source& a, std::size_t, std::size_t) { return a.can_lay() && !a.direct(); }

  // Computes a block of c with up to `rows` rows, as MicroKernel::run() does. The
  // sums are moved to c during the next run, or by finish().
  template <class Path>
  void run(std::size_t rows, const PackedSteps& steps, const float* a, const float* b,
           const float* ahead, const Path& path) {
    const RowTiles tiles{a, steps.count(depth) * row_floats, row_floats, tile_floats, 1};
    if (rows > tile_lines)
      run<2>(steps, tiles, b, ahead, path);
    else
      run<1>(steps, tiles, b, ahead, path);
  }
  template <class Path>
  void run_rows(const PackedSteps& steps, const float* a, std::size_t stride, const float* b,
                const float* ahead, const Path& path) {
    run<2>(steps, {a, tile_lines * stride, tile_floats, stride, set_distance(stride)}, b, ahead,
           path);
  }
  void finish() {
    store_late();
    sums_.finish();
  }

 private:
  static constexpr std::size_t line_bytes = line_floats * sizeof(float);
  // How many of the first steps of a block's rows stay in the first-level cache: steps of both
  // tiles, and of the upper tile.
  struct NearSteps {
    std::size_t both, upper;
  };
  // Waiting sums of segments need some of it.
  static constexpr std::size_t near_tiles = 40, near_tiles_of_segments = 24;

  // Rows at a distance of `stride` floats begin in every 1st, 2nd, 4th ... 64th of the cache's 64
  // sets. The same number of neighbouring steps fill these sets evenly: two tiles put half as many
  // lines in a set, which has room for twelve.
  static constexpr std::size_t set_distance(std::size_t stride) {
    const std::size_t lines = stride / line_floats | 64;
    return lines & (~lines + 1);
  }
  static constexpr NearSteps near_steps(std::size_t tiles, std::size_t distance) {
    if (distance > 32) return {0, 0};
    const std::size_t both = distance > 16 ? 0 : tiles / 2 / distance * distance;
    return {both, both != 0 ? both : (std::min)(tiles, distance)};
  }

  // Rows of a block in tiles.
  struct RowTiles {
    const float* first;
    std::size_t below;   // floats to the tile below
    std::size_t next;    // floats to the next step
    std::size_t stride;  // floats between rows
    std::size_t set_distance;
  };
  // A range of steps of a panel that has `all` steps.
  struct StepRange {
    std::size_t first, end, all;
  };

  template <int kTiles, class Path>
  void run(const PackedSteps& steps, const RowTiles& a, const float* b, const float* ahead,
           const Path& path) {
    const std::size_t all = steps.count(depth);
    if constexpr (std::is_same_v<Path, SumPath>)
      if (steps.segments == 1 && (!path.fresh || path.addends == 0))
        return run_along<kTiles>({0, all, all}, a, b, ahead, path);
    const NearSteps close_by =
        near_steps(steps.segments == 1 ? near_tiles : near_tiles_of_segments, a.set_distance);
    std::size_t level = 0;
    for (std::size_t i = 0, first = 0; i < steps.segments; ++i, ++level) {
      const std::size_t end = first + steps.count(i, depth);
      sum<kTiles>({first, end, all}, close_by, a, b, ahead);
      first = end;
      // Each trailing one bit of the segment's number is a neighbour that waits.
      const auto neighbours = static_cast<std::size_t>(std::countr_one(i));
      const std::size_t at = level;
      level -= neighbours;
      if (i + 1 == steps.segments)
        sums_.begin(at, neighbours, kTiles * tile_lines, path);
      else
        sums_.begin(at, neighbours, kTiles * tile_lines, level);
      late_tiles_ = kTiles;
    }
  }
  // Sums that are added in memory.
  template <int kTiles>
  void run_along(const StepRange& steps, const RowTiles& a, const float* b, const float* ahead,
                 const SumPath& path) {
    if (path.fresh)
      SumTiles<kTiles, 2>::clear();
    else
      SumTiles<kTiles, 2>::load(path.sums, path.stride);
    add<kTiles>(steps, near_steps(near_tiles, a.set_distance), a, b, ahead);
    if (path.addends == 0) return SumTiles<kTiles, 2>::store(path.sums, path.stride);
    sums_.begin(0, 0, kTiles * tile_lines, path);
    SumTiles<kTiles, 2>::store(sums_.stored(), TileSums::stride);
    sums_.finish();
  }
  // Sums that stay in the tiles. The previous sums are stored when their tiles are needed, and are
  // moved to c while the new sums are computed.
  template <int kTiles>
  void sum(StepRange steps, const NearSteps& close_by, const RowTiles& a, const float* b,
           const float* ahead) {
    if (steps.first == steps.end || late_tiles_ != kTiles) store_late();
    const bool late = late_tiles_ != 0;
    const std::size_t all = steps.end - steps.first;
    sums_.spread(splits ? all * SplitStep<kTiles, 2>::turns : all - (late ? 1 : 0));
    late_tiles_ = 0;
    if (!late)
      SumTiles<kTiles, 2>::clear();
    else if constexpr (splits)
      split_step_late<kTiles>(steps.first++, steps.all, a, b, ahead);
    else
      step_late<kTiles>(steps.first++, close_by, steps.all, a, b);
    add<kTiles>(steps, close_by, a, b, ahead);
    sums_.finish();
  }
  template <int kTiles>
  HWY_NOINLINE HWY_MAYBE_UNUSED void add(const StepRange& steps, const NearSteps& close_by,
                                         const RowTiles& a, const float* HWY_RESTRICT b,
                                         [[maybe_unused]] const float* ahead) {
    std::size_t i = steps.first;
    if constexpr (splits) {
      for (; i < steps.end; ++i)
        split_step<kTiles>(i, steps.all, a, b).run(Meanwhile{ahead + i * fetched_floats, sums_});
    } else {
      for (; i < (std::min)(close_by.both, steps.end); ++i) step<kTiles, 2>(i, steps.all, a, b);
      for (; i < (std::min)(close_by.upper, steps.end); ++i) step<kTiles, 1>(i, steps.all, a, b);
      for (; i < steps.end; ++i) step<kTiles, 0>(i, steps.all, a, b);
    }
  }
  void store_late() {
    if (late_tiles_ == 2)
      SumTiles<2, 2>::store(sums_.stored(), TileSums::stride);
    else if (late_tiles_ == 1)
      SumTiles<1, 2>::store(sums_.stored(), TileSums::stride);
    late_tiles_ = 0;
  }
  template <int kTiles>
  static HWY_INLINE SplitStep<kTiles, 2> split_step(std::size_t number, std::size_t all,
                                                    const RowTiles& a, const float* b) {
    return {a.first + number * row_floats, a.first + (all + number) * row_floats,
            b + number * column_floats, b + (all + number) * column_floats};
  }
  // The work between tile products: prefetches the next panel into the second-level cache, and
  // writes finished sums.
  struct Meanwhile {
    const float* ahead;
    TileSums& sums;
    HWY_INLINE void operator()(std::size_t turn) const {
      constexpr std::size_t floats = fetched_floats / SplitStep<2, 2>::turns;
      for (std::size_t i = 0; i < floats; i += line_floats)
        fetch_to_second_level(ahead + turn * floats + i);
      sums.advance();
    }
  };
  // Loads the tiles of a step; kNear tiles of a stay in the first-level cache.
  template <int kTiles, int kNear>
  static HWY_INLINE void load(std::size_t number, std::size_t all, const RowTiles& a,
                              const float* b) {
    constexpr std::size_t packed_stride = tile_floats * sizeof(float);
    const std::size_t stride = a.stride * sizeof(float);
    const float* const rows = a.first + number * a.next;
    b += number * column_floats;
    load_tile<4, kNear >= 1>(rows, stride);
    load_tile<6, false>(b, packed_stride);
    load_tile<7, false>(b + all * column_floats, packed_stride);
    if constexpr (kTiles == 2) load_tile<5, kNear == 2>(rows + a.below, stride);
  }
  template <int kTiles, int kNear>
  HWY_INLINE void step(std::size_t number, std::size_t all, const RowTiles& a, const float* b) {
    load<kTiles, kNear>(number, all, a, b);
    Tiles::multiply_add<0, 4, 6>(), Tiles::multiply_add<1, 4, 7>();
    sums_.advance();
    if constexpr (kTiles == 2) Tiles::multiply_add<2, 5, 6>(), Tiles::multiply_add<3, 5, 7>();
  }
  // Sets the first sums of tiles that still hold the previous sums. Each tile is stored just before
  // it is needed, which takes as long as a product.
  template <int kTiles>
  void step_late(std::size_t number, const NearSteps& close_by, std::size_t all, const RowTiles& a,
                 const float* b) {
    const Exchange<kTiles> first{sums_.stored()};
    if (number < close_by.both)
      load<kTiles, 2>(number, all, a, b);
    else if (number < close_by.upper)
      load<kTiles, 1>(number, all, a, b);
    else
      load<kTiles, 0>(number, all, a, b);
    first.template before<0>(), Tiles::multiply_add<0, 4, 6>();
    first.template before<1>(), Tiles::multiply_add<1, 4, 7>();
    if constexpr (kTiles == 2) {
      first.template before<2>(), Tiles::multiply_add<2, 5, 6>();
      first.template before<3>(), Tiles::multiply_add<3, 5, 7>();
    }
  }
  template <int kTiles>
  HWY_NOINLINE HWY_MAYBE_UNUSED void split_step_late(std::size_t number, std::size_t all,
                                                     const RowTiles& a, const float* b,
                                                     const float* ahead) {
    split_step<kTiles>(number, all, a, b)
        .run(Meanwhile{ahead + number * fetched_floats, sums_}, Exchange<kTiles>{sums_.stored()});
  }
  template <int kTiles>
  struct Exchange {
    float* to;
    template <int kSums>
    HWY_INLINE void before() const {
      SumTiles<kTiles, 2>::template exchange<kSums>(to, TileSums::stride);
    }
  };
  template <int kTile, bool kStays>
  static HWY_INLINE void load_tile(const float* from, std::size_t bytes) {
    if constexpr (kStays)
      Tiles::load<kTile>(from, bytes);
    else
      Tiles::load_once<kTile>(from, bytes);
  }

  Tiles registers_;
  TileSums sums_;
  int late_tiles_ = 0;  // tiles of rows that still hold the sums that leave next
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
