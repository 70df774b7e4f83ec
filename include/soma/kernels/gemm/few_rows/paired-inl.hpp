// Products of few rows with columns of b that are read in place (gemm/few_rows/few_rows-inl.hpp),
// for wide vectors. With 23 rows, vectors of 16 rows would be half empty. Here a vector has 8 rows
// of a, each in two neighbouring lanes, for two columns of b. The elements of the two columns are
// interleaved first: the next cache line is interleaved while the current one is multiplied. Each
// sum is the same chain.

#if defined(SOMA_KERNELS_GEMM_FEW_ROWS_PAIRED_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_FEW_ROWS_PAIRED_INL_HPP
#undef SOMA_KERNELS_GEMM_FEW_ROWS_PAIRED_INL_HPP
#else
#define SOMA_KERNELS_GEMM_FEW_ROWS_PAIRED_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/few_rows/operands-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>
#include <soma/simd/bf16_dot-inl.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

// Only for vectors of 16 lanes. Narrower vectors are full often enough.
#define SOMA_HAS_PAIRED_PRODUCTS SOMA_HAS_BF16_DOT

#if SOMA_HAS_PAIRED_PRODUCTS
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Up to three vectors pay: a fourth one saves no lane.
inline constexpr std::size_t paired_rows = float_lanes / 2;

namespace {  // internal linkage: units with other flags have their own

// The counterpart of LineBlocks for up to kVectors * paired_rows rows.
template <class Products, std::size_t kVectors>
class PairedBlocks {
  // With three vectors, sums take 24 of 32 registers: enough chains, and the other registers have
  // room for the operands.
  static constexpr std::size_t pairs = 8;
  static constexpr std::size_t pair_floats = 2 * line_floats;  // floats of a line
  static constexpr std::size_t laid_floats = pairs * pair_floats;
  using Pairs = std::make_index_sequence<pairs>;
  using Vectors = std::make_index_sequence<kVectors>;
  using All = std::make_index_sequence<pairs * kVectors>;

 public:
  static constexpr std::size_t rows = kVectors * paired_rows, columns = 2 * pairs;
  static constexpr std::size_t step_floats = kVectors * float_lanes;
  // 192 KiB of a, in the second-level cache. Fewer steps would fit in the first-level cache, but
  // the hardware prefetches columns of b best if it reads long runs.
  static constexpr std::size_t most_steps = 1024;

  PairedBlocks(const ColumnLines& b, const FewRowsWorkspace& workspace)
      : b_(b), sums_(workspace.sums), laid_(workspace.panel), other_(laid_ + laid_floats) {
    static_assert(2 * laid_floats <= pack_depth * micro_columns);
  }

  static constexpr std::size_t panel_floats(std::size_t) { return 0; }  // one for all rows

  template <class Source>
  static void pack(const Source& a, const PackPart& part, typename Source::Buffer& buffer,
                   float* panel) {
    const std::size_t steps = part.depth / Products::products;
    if (a.place(part.first_line, part.first) != nullptr) {
      const float* lines[step_floats];  // each row twice, any for one that is not there
      for (std::size_t i = 0; i < step_floats; ++i)
        lines[i] = a.place(part.first_line + (std::min)(i / 2, part.lines - 1), part.first);
      return pack_lines_panel<step_floats>(lines, steps, part.out);
    }
    PackPart once = part;
    once.out = panel;
    a.template pack<micro_columns, micro_columns>(once, buffer);
    for (std::size_t step = 0; step < steps; ++step)
      for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t i = 0; i < 2; ++i)
          std::memcpy(part.out + step * step_floats + 2 * row + i,
                      panel + step * micro_columns + row, sizeof(float));
  }

  void add(const ColumnLines::Position& first, std::size_t count, std::size_t steps, const float* a,
           const ColumnLines::Position& next, std::size_t) {
    lay_first(first);
    for (std::size_t at = 0; at < count; at += columns) {
      const std::size_t behind = at + columns;
      add_block({first.column + at, first.step}, steps, a,
                behind < count ? ColumnLines::Position{first.column + behind, first.step} : next,
                sums_ + at / 2 * step_floats);
    }
  }

  void turn(std::size_t first, std::size_t count, std::size_t tile_rows, float* tile) const {
    constexpr std::size_t stride = FewRowsWorkspace::tile_stride;
    for (std::size_t at = 0; at < count; at += columns) {
      float* const to = tile + at - (first + at - b_.start(first + at, columns));
      for (std::size_t row = 0; row < tile_rows; row += paired_rows)
        turn_rows(sums_ + at / 2 * step_floats + row * 2, (std::min)(tile_rows - row, paired_rows),
                  to + row * stride, stride);
    }
  }

 private:
  const float* block(const ColumnLines::Position& first) const {
    return b_.at({b_.start(first.column, columns), first.step});
  }

  // Interleaves a cache line of two columns.
  HWY_INLINE static void lay_pair(const float* b, std::size_t stride, float* to) {
    const Floats d;
    const FloatVector first = hn::LoadU(d, b), second = hn::LoadU(d, b + stride);
    hn::Store(hn::InterleaveLower(d, first, second), d, to);
    hn::Store(hn::InterleaveUpper(d, first, second), d, to + line_floats);
  }
  static constexpr std::size_t place(std::size_t step) {
    return step / 4 * 4 + step % 4 / 2 * line_floats + step % 2 * 2;
  }
  // Interleaves less than a cache line of all columns of a block.
  void lay_rest(const float* b, std::size_t steps) const {
    for (std::size_t i = 0; i < columns; ++i)
      for (std::size_t step = 0; step < steps; ++step)
        std::memcpy(laid_ + i / 2 * pair_floats + place(step) + i % 2, b + i * b_.stride + step,
                    sizeof(float));
  }

  // Interleaves the first line of a block, which add_block() reads.
  void lay_first(const ColumnLines::Position& first) const {
    const float* const b = block(first);
    const std::size_t steps = b_.steps - first.step;
    if (steps < line_floats) return lay_rest(b, steps);
    for (std::size_t pair = 0; pair < pairs; ++pair)
      lay_pair(b + 2 * pair * b_.stride, b_.stride, laid_ + pair * pair_floats);
  }

  void add_block(const ColumnLines::Position& first, std::size_t steps, const float* a,
                 const ColumnLines::Position& next, float* sums) {
    const std::size_t lines = steps / line_floats, rest = steps % line_floats;
    const bool fresh = first.step == 0;
    const ColumnLines::Position last =
        rest != 0 ? ColumnLines::Position{first.column, first.step + lines * line_floats} : next;
    const bool whole = b_.steps - last.step >= line_floats;
    if (lines != 0)
      run(lines, laid_, other_, a,
          {block(first) + line_floats, whole ? block(last) : nullptr, block(next), b_.stride}, sums,
          fresh);
    if (lines % 2 != 0) std::swap(laid_, other_);
    if (!whole && lines != 0) lay_rest(block(last), b_.steps - last.step);
    if (rest == 0) return;
    run_rest(rest, laid_, a + lines * line_floats * step_floats, sums, fresh && lines == 0);
    lay_first(next);
  }

  // The addresses in b that run() reads while it multiplies: the second to the last of the lines
  // that it interleaves (the last may belong to other columns, or be missing), and the same number
  // of lines of the next block, which it prefetches.
  struct Ahead {
    const float *second, *last, *next;
    std::size_t stride;
  };

  // The first line is in `b`, already interleaved. The lines after it go to `other` and `b` in
  // turn.
  HWY_NOINLINE HWY_MAYBE_UNUSED static void run(std::size_t lines, float* b, float* other,
                                                const float* a, const Ahead& ahead,
                                                float* HWY_RESTRICT to, bool fresh) {
    alignas(64) static constexpr float nothing[line_floats] = {};
    FloatVector sums[pairs * kVectors];
    if (fresh)
      clear(All(), sums);
    else
      load(All(), sums, to);
    const std::size_t fetch_stride = ahead.stride;
    std::size_t stride = fetch_stride;
    const float *line = ahead.second, *fetched = ahead.next;
    for (std::size_t left = lines; left != 0; --left) {
      if (left == 1) line = ahead.last;
      if (line == nullptr) line = nothing, stride = 0;
      const float *lay = line, *fetch = fetched;
      for (std::size_t group = 0; group < line_floats; group += 4, b += 4) {
        for (std::size_t i = 0; i < pairs / 4; ++i) {
          lay_pair(lay, stride, other);
          hwy::Prefetch(fetch);
          hwy::Prefetch(fetch + fetch_stride);
          lay += 2 * stride;
          fetch += 2 * fetch_stride;
          other += pair_floats;
        }
        step(Pairs(), sums, a, b);
        step(Pairs(), sums, a, b + 2);
        step(Pairs(), sums, a, b + line_floats);
        step(Pairs(), sums, a, b + line_floats + 2);
      }
      b -= line_floats;
      other -= laid_floats;
      std::swap(b, other);
      line += line_floats;
      fetched += line_floats;
    }
    store(All(), sums, to);
  }
  // For less than a cache line.
  HWY_NOINLINE HWY_MAYBE_UNUSED static void run_rest(std::size_t steps, const float* b,
                                                     const float* a, float* HWY_RESTRICT to,
                                                     bool fresh) {
    FloatVector sums[pairs * kVectors];
    if (fresh)
      clear(All(), sums);
    else
      load(All(), sums, to);
    for (std::size_t i = 0; i < steps; ++i) step(Pairs(), sums, a, b + place(i));
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
                              const float* b) {
    FloatVector row[kVectors];
    load(Vectors(), row, a);
    (multiply_add(Vectors(), sums + pair * kVectors, both(b + pair * pair_floats), row), ...);
    a += step_floats;
  }
  template <std::size_t... j>
  HWY_INLINE static void multiply_add(std::index_sequence<j...>, FloatVector* sums,
                                      FloatVector pair, const FloatVector* row) {
    ((sums[j] = Products::add(pair, row[j], sums[j])), ...);
  }
  // Two floats, repeated in all pairs of lanes.
  HWY_INLINE static FloatVector both(const float* pair) {
    double places;
    std::memcpy(&places, pair, sizeof places);
    return hn::BitCast(Floats(), hn::Set(hn::Repartition<double, Floats>(), places));
  }

  // Moves the sums of a vector of rows, which are [pair][row][2], to columns of the tile.
  static void turn_rows(const float* sums, std::size_t count, float* tile, std::size_t stride) {
    alignas(64) float turned[paired_rows * columns];
    turn_half(sums, turned);
    turn_half(sums + pairs / 2 * step_floats, turned + columns / 2);
    for (std::size_t row = 0; row < count; ++row)
      hn::StoreU(hn::Load(Floats(), turned + row * columns), Floats(), tile + row * stride);
  }
  // Transposes half of the columns: two pairs on the left and two on the right.
  static void turn_half(const float* sums, float* turned) {
    const hn::Half<Floats> half;
    for (std::size_t odd = 0; odd < 2; ++odd) {
      // Four columns of every other row in a block of 128 bits.
      const FloatVector left = join_pairs(sums, odd != 0);
      const FloatVector right = join_pairs(sums + 2 * step_floats, odd != 0);
      const FloatVector even_blocks = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(right), left);
      const FloatVector odd_blocks = hn::OddEvenBlocks(right, hn::SwapAdjacentBlocks(left));
      float* const to = turned + (odd != 0 ? columns : 0);
      hn::Store(hn::LowerHalf(half, even_blocks), half, to);
      hn::Store(hn::LowerHalf(half, odd_blocks), half, to + 2 * columns);
      hn::Store(hn::UpperHalf(half, even_blocks), half, to + 4 * columns);
      hn::Store(hn::UpperHalf(half, odd_blocks), half, to + 6 * columns);
    }
  }
  static FloatVector join_pairs(const float* sums, bool odd_rows) {
    const hn::Repartition<double, Floats> both;
    const auto low = hn::BitCast(both, hn::Load(Floats(), sums));
    const auto high = hn::BitCast(both, hn::Load(Floats(), sums + step_floats));
    return hn::BitCast(Floats(), odd_rows ? hn::InterleaveUpper(both, low, high)
                                          : hn::InterleaveLower(both, low, high));
  }

  ColumnLines b_;
  float *sums_, *laid_, *other_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
