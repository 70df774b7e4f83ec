// Moves sums from tiles to c. Tile registers can neither add nor round. So the sums of a block, or
// of a segment of a block, are stored in the first-level cache, where the waiting sums of other
// segments are added to them, and from where they are written as bf16 or fp32. This is done a row
// at a time, during the products of the next block: a product takes 16 cycles, in which the core
// has nothing else to do.

#if defined(SOMA_KERNELS_GEMM_TILES_SUMS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_TILES_SUMS_INL_HPP
#undef SOMA_KERNELS_GEMM_TILES_SUMS_INL_HPP
#else
#define SOMA_KERNELS_GEMM_TILES_SUMS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/epilogue-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/simd/bf16_tiles-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#if SOMA_HAS_BF16_TILES
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {  // internal linkage: units with other flags have their own

// The sums that the tiles stored last, memory for these sums and for waiting ones, and the work
// that is left.
class TileSums {
 public:
  static constexpr std::size_t stride = micro_columns;

  TileSums() {}  // places have no value: 20 KiB of zeros for each product would take longer

  // The next three functions begin to move sums, which are stored() before the next advance(). This
  // one takes the sums of `rows` rows at a level of the tree of segments, adds `neighbours` waiting
  // sums of lower levels, and keeps the result at level `to`.
  void begin(std::size_t level, std::size_t neighbours, std::size_t rows, std::size_t to) {
    begin(level, neighbours, rows, {place(to), stride});
  }
  // Adds the sums of `neighbours` waiting sums of lower levels, and stores the result by `path`,
  // which must be fresh.
  void begin(std::size_t level, std::size_t neighbours, std::size_t rows, const SumPath& path) {
    work_ = {0, rows, rows, place(level), neighbours, path};
  }
  // Adds the neighbours in the same way, and writes the result through an exit.
  void begin(std::size_t level, std::size_t neighbours, std::size_t,
             const ExitPath<Bf16Exit>& path) {
    work_ = {0, path.rows, path.rows, place(level), neighbours, {nullptr, 0}, path};
    exit_ = *path.exit;
  }

  float* stored() { return work_.sums; }

  // Divides the work among `calls` calls of advance(). finish() does the rest.
  void spread(std::size_t calls) {
    const std::size_t left = work_.rows - work_.row;
    work_.share = calls == 0 ? left : (left + calls - 1) / calls;
  }
  HWY_INLINE void advance() {
    if (work_.row != work_.rows) leave((std::min)(work_.row + work_.share, work_.rows));
  }
  void finish() {
    if (work_.row != work_.rows) leave(work_.rows);
  }

 private:
  // Keeps a distance from the 4 KiB of a block: loads would wait for stores to the same offset in a
  // page.
  static constexpr std::size_t apart = 2 * tile_lines * stride + 2 * line_floats;

  float* place(std::size_t level) { return places_ + level * apart; }

  struct Work {
    std::size_t row, rows, share;  // the next one, all, and those of a call
    float* sums;
    std::size_t neighbours;
    SumPath path;  // with no place where there is an exit
    ExitPath<Bf16Exit> exit{};
  };

  struct Row {
    FloatVector left, right;

    // Adds `addends` tiles of sums: the first is `distance` floats before `place`, the next one the
    // same distance before that.
    HWY_INLINE void join(const float* place, std::size_t addends, std::size_t distance) {
      for (; addends != 0; --addends) {
        place -= distance;
        left = hn::Add(hn::LoadU(Floats(), place), left);
        right = hn::Add(hn::LoadU(Floats(), place + float_lanes), right);
      }
    }
  };

  HWY_NOINLINE void leave(std::size_t end) {
    const Work work = work_;  // which stores might be taken to change
    work_.row = end;
    if (work.path.sums == nullptr) {
      const Bf16Exit exit = exit_;
      for (std::size_t i = work.row; i < end; ++i) {
        const Row row = joined(work, i);
        exit.write_products(work.exit.row + i, work.exit.column, row.left, row.right);
      }
      return;
    }
    SumPath path = work.path.behind(work.row * work.path.stride);
    for (std::size_t i = work.row; i < end; ++i, path.sums += path.stride) {
      Row row = joined(work, i);
      row.join(path.sums, path.addends, path.addend_distance);
      hn::StoreU(row.left, Floats(), path.end());
      hn::StoreU(row.right, Floats(), path.end() + float_lanes);
    }
  }
  static HWY_INLINE Row joined(const Work& work, std::size_t i) {
    const float* sums = work.sums + i * stride;
    Row row{hn::Load(Floats(), sums), hn::Load(Floats(), sums + float_lanes)};
    row.join(sums, work.neighbours, apart);
    return row;
  }

  alignas(64) float places_[std::bit_width(PackedSteps::most_segments) * apart];
  Work work_{};
  Bf16Exit exit_{};
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
