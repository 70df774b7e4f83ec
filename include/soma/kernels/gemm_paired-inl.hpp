// Products of few rows where vectors are wide: y = x W^T of a short sentence, as in
// gemm_narrow-inl.hpp. A vector of 16 rows would be half empty for 23 of them. Here it has 8 rows
// of a, each in two lanes that are neighbours, for two columns of b, whose elements lie side by
// side for it. Each sum is the same chain.

#if defined(SOMA_KERNELS_GEMM_PAIRED_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_PAIRED_INL_HPP
#undef SOMA_KERNELS_GEMM_PAIRED_INL_HPP
#else
#define SOMA_KERNELS_GEMM_PAIRED_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm_micro-inl.hpp>
#include <soma/simd/bf16_dot-inl.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

// Where vectors have 16 lanes. Narrower ones are full often enough.
#define SOMA_HAS_PAIRED_PRODUCTS SOMA_HAS_BF16_DOT

#if SOMA_HAS_PAIRED_PRODUCTS
HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of a in a vector. Up to three vectors are worth it: with four, no lane is saved.
inline constexpr std::size_t paired_rows = float_lanes / 2;
// Steps, of one float's place, that are taken at a time: 32 KiB of a and b.
inline constexpr std::size_t paired_steps = 128;

namespace {  // internal linkage: units with other flags have their own

// Sums of up to kVectors * paired_rows rows. `Products` as MicroKernel has them.
template <class Products, std::size_t kVectors>
class PairedProduct {
  // 24 of 32 registers for sums, as MicroKernel has 28: chains enough, and room for the rest.
  static constexpr std::size_t pairs = 24 / kVectors;
  static constexpr std::size_t step_floats = kVectors * float_lanes;
  static constexpr std::size_t pair_floats = 2 * paired_steps;
  using Pairs = std::make_index_sequence<pairs>;
  using Vectors = std::make_index_sequence<kVectors>;
  using All = std::make_index_sequence<pairs * kVectors>;

 public:
  static constexpr std::size_t block_columns = 2 * pairs;
  static constexpr std::size_t b_floats = pairs * pair_floats;
  static constexpr std::size_t a_floats = paired_steps * step_floats;
  static constexpr std::size_t sums_floats(std::size_t columns) {
    return (columns + block_columns - 1) / block_columns * pairs * step_floats;
  }

  // Columns of b lie `stride` floats apart. Room for b_floats, a_floats, and sums_floats() of all
  // columns, of which there are at least block_columns.
  PairedProduct(std::size_t stride, float* b, float* a, float* sums)
      : stride_(stride), b_(b), a_(a), sums_(sums) {}

  // The next steps of a, at most paired_steps, from a panel of micro_columns rows.
  void take_rows(const float* panel, std::size_t steps) const {
    const hn::Repartition<std::uint64_t, Floats> wide;
    const hn::Rebind<std::uint32_t, decltype(wide)> places;
    for (std::size_t step = 0; step < steps; ++step)
      for (std::size_t i = 0; i < kVectors; ++i) {
        std::uint32_t rows[paired_rows];
        std::memcpy(rows, panel + step * micro_columns + i * paired_rows, sizeof rows);
        const auto once = hn::PromoteTo(wide, hn::LoadU(places, rows));
        hn::Store(hn::BitCast(Floats(), hn::Or(once, hn::ShiftLeft<32>(once))), Floats(),
                  a_ + step * step_floats + i * float_lanes);
      }
  }

  // The products of these steps join the sums of all columns, or begin them where `fresh`. b: of
  // the first column. Behind the last columns, those at `next` are fetched.
  void add(const float* b, std::size_t columns, std::size_t steps, const float* next,
           bool fresh) const {
    for (std::size_t at = 0; at < columns; at += block_columns) {
      const float* from = b + start_of(at, columns) * stride_;
      take_columns(from, steps);
      if (at + block_columns < columns) next = b + start_of(at + block_columns, columns) * stride_;
      run(steps, b_, a_, {next, stride_}, sums_ + at / 2 * step_floats, fresh);
    }
  }

  // tile[row * stride + column] of `rows` rows.
  void turn(std::size_t columns, std::size_t rows, float* tile, std::size_t tile_stride) const {
    for (std::size_t at = 0; at < columns; at += block_columns)
      for (std::size_t pair = 0; pair < pairs; pair += 2)
        turn_columns(sums_ + (at / 2 + pair) * step_floats, rows,
                     tile + start_of(at, columns) + 2 * pair, tile_stride);
  }

 private:
  // What is read next of b: its lines of 16 steps from block_columns columns at a time.
  struct Ahead {
    const float* at;
    std::size_t stride;
  };

  // Where a block of columns starts: the last overlaps the one before it, in sums of its own.
  static std::size_t start_of(std::size_t block, std::size_t columns) {
    return (std::min)(block, columns - block_columns);
  }

  // a[0], b[0], a[1], b[1] ...
  HWY_INLINE static void store_pairs(FloatVector a, FloatVector b, float* to) {
    // Two instructions of a unit that multiplies; Highway 1.0.3 takes six.
    const __m512i first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    _mm512_store_ps(to, _mm512_permutex2var_ps(a.raw, first, b.raw));
    _mm512_store_ps(to + float_lanes, _mm512_permutex2var_ps(a.raw, second, b.raw));
  }

  // Pairs of neighbouring columns of b, [pairs][steps][2].
  void take_columns(const float* b, std::size_t steps) const {
    const Floats d;
    for (std::size_t pair = 0; pair < pairs; ++pair, b += 2 * stride_) {
      float* const to = b_ + pair * pair_floats;
      std::size_t k = 0;
      for (; k + float_lanes <= steps; k += float_lanes)
        store_pairs(hn::LoadU(d, b + k), hn::LoadU(d, b + stride_ + k), to + 2 * k);
      for (; k < steps; ++k) {
        std::memcpy(to + 2 * k, b + k, sizeof(float));
        std::memcpy(to + 2 * k + 1, b + stride_ + k, sizeof(float));
      }
    }
  }

  HWY_NOINLINE HWY_MAYBE_UNUSED static void run(std::size_t steps, const float* b, const float* a,
                                                const Ahead& ahead, float* HWY_RESTRICT to,
                                                bool fresh) {
    FloatVector sums[pairs * kVectors];
    if (fresh)
      clear(All(), sums);
    else
      load(All(), sums, to);
    for (std::size_t first = 0; first < steps; first += line_floats) {
      const std::size_t end = (std::min)(first + line_floats, steps);
      const float* column = ahead.at + first;
      std::size_t i = first;
      for (; i + 1 < end; i += 2) {
        for (std::size_t j = 0; j < block_columns * 2 / line_floats; ++j, column += ahead.stride)
          hwy::Prefetch(column);
        step(Pairs(), sums, a, b);
        step(Pairs(), sums, a, b);
      }
      if (i < end) step(Pairs(), sums, a, b);
    }
    store(All(), sums, to);
  }

  template <std::size_t... i>
  HWY_INLINE static void clear(std::index_sequence<i...>, FloatVector* sums) {
    ((sums[i] = hn::Zero(Floats())), ...);
  }
  template <std::size_t... i>
  HWY_INLINE static void load(std::index_sequence<i...>, FloatVector* sums, const float* from) {
    ((sums[i] = hn::Load(Floats(), from + i * float_lanes)), ...);
  }
  template <std::size_t... i>
  HWY_INLINE static void store(std::index_sequence<i...>, const FloatVector* sums, float* to) {
    (hn::Store(sums[i], Floats(), to + i * float_lanes), ...);
  }
  template <std::size_t... pair>
  HWY_INLINE static void step(std::index_sequence<pair...>, FloatVector* sums, const float*& a,
                              const float*& b) {
    FloatVector row[kVectors];
    load(Vectors(), row, a);
    (multiply_add(Vectors(), sums + pair * kVectors, both(b + pair * pair_floats), row), ...);
    a += step_floats;
    b += 2;
  }
  template <std::size_t... j>
  HWY_INLINE static void multiply_add(std::index_sequence<j...>, FloatVector* sums,
                                      FloatVector columns, const FloatVector* row) {
    ((sums[j] = Products::add(columns, row[j], sums[j])), ...);
  }
  // Two floats' places, again and again.
  HWY_INLINE static FloatVector both(const float* columns) {
    double places;
    std::memcpy(&places, columns, sizeof places);
    return hn::BitCast(Floats(), hn::Set(hn::Repartition<double, Floats>(), places));
  }

  // Sums of two pairs of columns, to four columns of the tile.
  static void turn_columns(const float* sums, std::size_t rows, float* tile, std::size_t stride) {
    const Floats d;
    const hn::Repartition<double, Floats> places;
    alignas(64) float turned[2 * float_lanes];
    for (std::size_t first = 0; first < rows; first += paired_rows, sums += float_lanes) {
      const auto low = hn::BitCast(places, hn::Load(d, sums));
      const auto high = hn::BitCast(places, hn::Load(d, sums + step_floats));
      hn::Store(hn::BitCast(d, hn::InterleaveLower(places, low, high)), d, turned);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(places, low, high)), d, turned + float_lanes);
      for (std::size_t row = first; row < (std::min)(first + paired_rows, rows); ++row)
        std::memcpy(tile + row * stride, turned + row % 2 * float_lanes + (row - first) / 2 * 4,
                    4 * sizeof(float));
    }
  }

  std::size_t stride_;
  float *b_, *a_, *sums_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();
#endif

#endif
