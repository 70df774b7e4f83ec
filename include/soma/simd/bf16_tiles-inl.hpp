// The bf16 tile product of x86 (AMX_BF16): it adds the products of 32 steps of k to a 16 x 16 tile
// of fp32 sums. Per element, with a0 b0 ... a31 b31 the products of the steps:
//
//   sum + ((a0 b0 + a2 b2 + ... + a30 b30) + (a1 b1 + a3 b3 + ... + a31 b31))
//
// where the two inner sums are chains of fused multiply-adds from zero, rounded to nearest even,
// and subnormal inputs and results count as zero, whatever the floating-point environment ("Intel
// 64 and IA-32 Architectures Software Developer's Manual", TDPBF16PS).
//
// Tile registers are memory of a thread that must be configured, and whose use the operating system
// allows a process (runtime/cpu.hpp). Compilers keep nothing in them, so the instructions are
// written out as they are: the intrinsics would want a target of their own on every function that
// they are inlined into.

#if defined(SOMA_SIMD_BF16_TILES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_BF16_TILES_INL_HPP
#undef SOMA_SIMD_BF16_TILES_INL_HPP
#else
#define SOMA_SIMD_BF16_TILES_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/simd/bf16_dot-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

// Rows of a tile, floats (or pairs of bf16 numbers) in a row of it, and steps of k in a product.
inline constexpr std::size_t tile_lines = 16, tile_floats = 16, tile_steps = 2 * tile_floats;

// True if the target may be compiled with these instructions: every target with the dot product
// may, because a CPU with tiles has the dot product too. The instructions are written as GNU
// assembly. Callers ask the CPU and the operating
// system before they run the code.
#define SOMA_HAS_BF16_TILES (SOMA_HAS_BF16_DOT && SOMA_GNU_ASSEMBLY)

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE

#if SOMA_HAS_BF16_TILES
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

namespace {  // internal linkage: units with other flags have their own

// All eight tile registers of this thread, configured in full size as long as the object exists.
class Tiles {
 public:
  Tiles() {
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t bytes_of_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } const configuration;
    asm volatile("ldtilecfg %0" : : "m"(configuration));
  }
  // A context switch costs less for a thread without tiles.
  ~Tiles() { asm volatile("tilerelease"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  template <int kTile>
  static HWY_INLINE void clear() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  // Loads rows that are `stride` bytes apart.
  template <int kTile>
  static HWY_INLINE void load(const void* from, std::size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  // The same for data that are read once: the load does not displace other data from the
  // first-level cache.
  template <int kTile>
  static HWY_INLINE void load_once(const void* from, std::size_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(from), "r"(stride), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  static HWY_INLINE void store(void* to, std::size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  // sums += a b. a: [row][pair of steps]; b: [pair of steps][column].
  template <int kSums, int kA, int kB>
  static HWY_INLINE void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
  }
};

// The sums of a block of kRows x kColumns tiles: tiles 0 and 1, and 2 and 3 below them. In memory,
// rows are `stride` floats apart.
template <int kRows, int kColumns>
struct SumTiles {
  static HWY_INLINE void clear() {
    Tiles::clear<0>();
    if constexpr (kColumns == 2) Tiles::clear<1>();
    if constexpr (kRows == 2) Tiles::clear<2>();
    if constexpr (kRows == 2 && kColumns == 2) Tiles::clear<3>();
  }
  // Stores and clears one of the tiles.
  template <int kTile>
  static HWY_INLINE void exchange(float* to, std::size_t stride) {
    Tiles::store<kTile>(to + kTile / 2 * tile_lines * stride + kTile % 2 * tile_floats,
                        stride * sizeof(float));
    Tiles::clear<kTile>();
  }
  static HWY_INLINE void load(const float* from, std::size_t stride) {
    const std::size_t bytes = stride * sizeof(float);
    const float* const below = from + tile_lines * stride;
    Tiles::load<0>(from, bytes);
    if constexpr (kColumns == 2) Tiles::load<1>(from + tile_floats, bytes);
    if constexpr (kRows == 2) Tiles::load<2>(below, bytes);
    if constexpr (kRows == 2 && kColumns == 2) Tiles::load<3>(below + tile_floats, bytes);
  }
  static HWY_INLINE void store(float* to, std::size_t stride) {
    const std::size_t bytes = stride * sizeof(float);
    float* const below = to + tile_lines * stride;
    Tiles::store<0>(to, bytes);
    if constexpr (kColumns == 2) Tiles::store<1>(to + tile_floats, bytes);
    if constexpr (kRows == 2) Tiles::store<2>(below, bytes);
    if constexpr (kRows == 2 && kColumns == 2) Tiles::store<3>(below + tile_floats, bytes);
  }
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
