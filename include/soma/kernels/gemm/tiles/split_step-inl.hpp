// A step of the innermost loop for split numbers (gemm/pack/fp32_split-inl.hpp): 32 of k for a
// block of c of 2 x 2 tiles, or 1 x 2.
//
// Six of the nine products of parts are added to the sums, the smallest first; the others are below
// 2^-22 of the product. Parts of a and b take turns, so that 14 loads serve 24 products of 16
// cycles, which take longer than the loads even from the second-level cache. A register is loaded
// as soon as the last product has read it.

#if defined(SOMA_KERNELS_GEMM_TILES_SPLIT_STEP_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_TILES_SPLIT_STEP_INL_HPP
#undef SOMA_KERNELS_GEMM_TILES_SPLIT_STEP_INL_HPP
#else
#define SOMA_KERNELS_GEMM_TILES_SPLIT_STEP_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/fp32_split-inl.hpp>
#include <soma/simd/bf16_tiles-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>

#if SOMA_HAS_BF16_TILES
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

namespace {  // internal linkage: units with other flags have their own

// Does nothing before the first product of a tile of sums.
struct NothingBefore {
  template <int kSums>
  HWY_INLINE void before() const {}
};

// One or two tiles of rows, and one or two of columns: sums are in registers 0 and 1, and for the
// lower row in 2 and 3. If the operands have swapped roles (kSwapped), the parts of rows and the
// parts of columns change their order, so that products are added in the same order.
template <int kRows, int kColumns, bool kSwapped = false>
struct SplitStep {
  static constexpr std::size_t turns = 6;

  // A step of each panel: three tiles.
  const float *upper, *lower, *left, *right;

  // Calls between(turn) after the products of each pair of parts, and first.before<sums>() before
  // the first product of each tile of sums. The compiler must inline both.
  template <class Between, class First = NothingBefore>
  HWY_INLINE void run(const Between& between, const First& first = {}) const {
    constexpr std::size_t row_part = kSwapped ? 0 : 2, column_part = kSwapped ? 2 : 0;
    load<4, row_part>(upper), load<6, column_part>(left);
    load<7, column_part>(right), load<5, row_part>(lower);
    multiply_before<kSwapped, 1>(first), between(0);
    multiply_before<!kSwapped, 1>(), between(1);
    multiply_before<kSwapped, 0>(), between(2);
    multiply_before<!kSwapped, 2>(), between(3);
    multiply_before<!kSwapped, 0>(), between(4);
    add<0, 4, 6>(), add<1, 4, 7>(), add<2, 5, 6>(), add<3, 5, 7>(), between(5);
  }

 private:
  // Issues all products of the loaded tiles. The products after them use another part of rows, or
  // of columns.
  template <bool kOfColumns, std::size_t kPart, class First = NothingBefore>
  HWY_INLINE void multiply_before(const First& first = {}) const {
    if constexpr (kOfColumns) {
      add<0, 4, 6>(first), add<2, 5, 6>(first), load<6, kPart>(left);
      add<1, 4, 7>(first), add<3, 5, 7>(first), load<7, kPart>(right);
    } else {
      add<0, 4, 6>(first), add<1, 4, 7>(first), load<4, kPart>(upper);
      add<2, 5, 6>(first), add<3, 5, 7>(first), load<5, kPart>(lower);
    }
  }
  // True if the block has this tile.
  static constexpr bool has(int tile) {
    return (tile != 5 || kRows == 2) && (tile != 7 || kColumns == 2);
  }
  template <int kTile, std::size_t kPart>
  static HWY_INLINE void load(const float* step) {
    if constexpr (has(kTile))
      Tiles::load<kTile>(step + kPart * split_tile_floats, tile_floats * sizeof(float));
  }
  template <int kSums, int kRow, int kColumn, class First = NothingBefore>
  static HWY_INLINE void add(const First& first = {}) {
    if constexpr (has(kRow) && has(kColumn)) {
      first.template before<kSums>();
      Tiles::multiply_add<kSums, kRow, kColumn>();
    }
  }
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
