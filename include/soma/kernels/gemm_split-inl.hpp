// A step of the innermost loop for split numbers (pack_split-inl.hpp): 32 of k for a block of c of
// 2 x 2 tiles, or 1 x 2.
//
// Six of the nine products of parts join the sums, the smallest first; the others are below 2^-22
// of the product. Parts of a and b take turns, so that 14 loads serve 24 products of 16 cycles,
// which take longer than the loads even from the second-level cache. A register is loaded as soon
// as the last product has read it.

#if defined(SOMA_KERNELS_GEMM_SPLIT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_SPLIT_INL_HPP
#undef SOMA_KERNELS_GEMM_SPLIT_INL_HPP
#else
#define SOMA_KERNELS_GEMM_SPLIT_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm_micro-inl.hpp>
#include <soma/kernels/pack_split-inl.hpp>
#include <soma/simd/bf16_tiles-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>

#if SOMA_HAS_BF16_TILES
HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {

namespace {  // internal linkage: units with other flags have their own

class SplitStep {
  static constexpr std::size_t turns = 6, lines_a_turn = 3;

 public:
  // That are fetched from `ahead` on meanwhile, to the second-level cache.
  static constexpr std::size_t fetched_floats = turns * lines_a_turn * line_floats;

  // Sums in tile registers 0 and 1, and below them 2 and 3; a step of the panels of a block.
  template <int kTiles>
  static HWY_INLINE void run(const float* a, const float* a_below, const float* b,
                             const float* b_behind, const float* ahead) {
    load<4, 2>(a), load<6, 0>(b), load<7, 0>(b_behind);
    if constexpr (kTiles == 2) load<5, 2>(a_below);
    multiply_by_rows<kTiles, 1>(a, a_below), fetch<0>(ahead);
    multiply_by_columns<kTiles, 1>(b, b_behind), fetch<1>(ahead);
    multiply_by_rows<kTiles, 0>(a, a_below), fetch<2>(ahead);
    multiply_by_columns<kTiles, 2>(b, b_behind), fetch<3>(ahead);
    multiply_by_columns<kTiles, 0>(b, b_behind), fetch<4>(ahead);
    Tiles::multiply_add<0, 4, 6>(), Tiles::multiply_add<1, 4, 7>();
    if constexpr (kTiles == 2) Tiles::multiply_add<2, 5, 6>(), Tiles::multiply_add<3, 5, 7>();
    fetch<5>(ahead);
  }

 private:
  // All products of what is loaded, and a part of a, or of b, for those that follow.
  template <int kTiles, std::size_t kPart>
  static HWY_INLINE void multiply_by_rows(const float* a, const float* below) {
    Tiles::multiply_add<0, 4, 6>(), Tiles::multiply_add<1, 4, 7>(), load<4, kPart>(a);
    if constexpr (kTiles == 2)
      Tiles::multiply_add<2, 5, 6>(), Tiles::multiply_add<3, 5, 7>(), load<5, kPart>(below);
  }
  template <int kTiles, std::size_t kPart>
  static HWY_INLINE void multiply_by_columns(const float* b, const float* behind) {
    Tiles::multiply_add<0, 4, 6>();
    if constexpr (kTiles == 2) Tiles::multiply_add<2, 5, 6>();
    load<6, kPart>(b), Tiles::multiply_add<1, 4, 7>();
    if constexpr (kTiles == 2) Tiles::multiply_add<3, 5, 7>();
    load<7, kPart>(behind);
  }
  template <int kTile, std::size_t kPart>
  static HWY_INLINE void load(const float* step) {
    Tiles::load<kTile>(step + kPart * split_tile_floats, tile_floats * sizeof(float));
  }
  template <std::size_t kTurn>
  static HWY_INLINE void fetch(const float* ahead) {
    for (std::size_t i = kTurn * lines_a_turn; i < (kTurn + 1) * lines_a_turn; ++i)
      __builtin_prefetch(ahead + i * line_floats, 0, 2);
  }
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();
#endif

#endif
