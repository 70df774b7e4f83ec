// Matrix products with a chosen accumulator, for studies. The innermost loop of every other product
// (gemm/micro_kernel-inl.hpp) runs for a chunk of products at a time; then a pass over the running
// sums rounds them, while they are in the first-level cache.

#if defined(SOMA_KERNELS_GEMM_ROUNDED_SUMS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_ROUNDED_SUMS_INL_HPP
#undef SOMA_KERNELS_GEMM_ROUNDED_SUMS_INL_HPP
#else
#define SOMA_KERNELS_GEMM_ROUNDED_SUMS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/args.hpp>
#include <soma/kernels/gemm/epilogue-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>
#include <soma/kernels/gemm/workspace-inl.hpp>
#include <soma/kernels/reduce/segment_tree-inl.hpp>
#include <soma/simd/decode-inl.hpp>
#include <soma/simd/encode-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The steps of k that are packed together, and the rows of a tile. Running sums are stored in the
// workspace of panels of b, which are shorter here.
inline constexpr std::size_t study_depth = 128;
inline constexpr std::size_t study_rows = (pack_depth - study_depth) / micro_rows * micro_rows;
static_assert(study_rows != 0 && study_rows * study_depth <= gemm_packed_rows * gemm_packed_steps);
// The floats of the running sums of a micro-tile, row by row.
inline constexpr std::size_t micro_floats = micro_rows * micro_columns;

using RoundSums = void (*)(const CodecParams& format, float* sums);

// Rounds to a format with fp32's exponents and special numbers, whose mantissa is at least one bit
// shorter. A NaN sum is never signalling, so it is a NaN without its lower bits, too.
HWY_NOINLINE HWY_MAYBE_UNUSED static void cut_mantissas(const CodecParams& format, float* sums) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const int cut = 23 - format.mantissa_bits;
  const auto one = hn::Set(du, 1u), kept = hn::Set(du, ~std::uint32_t{0} << cut);
  const auto below_half = hn::Set(du, (std::uint32_t{1} << (cut - 1)) - 1);
  for (std::size_t i = 0; i < micro_floats; i += float_lanes) {
    const auto bits = hn::BitCast(du, hn::Load(d, sums + i));
    const auto is_nan = hn::Gt(hn::And(bits, hn::Set(du, 0x7FFFFFFFu)), hn::Set(du, 0x7F800000u));
    const auto addend = hn::Add(below_half, hn::And(hn::ShiftRightSame(bits, cut), one));
    const auto rounded = hn::IfThenElse(is_nan, bits, hn::Add(bits, addend));
    hn::Store(hn::BitCast(d, hn::And(rounded, kept)), d, sums + i);
  }
}

// For any format: encodes each sum and decodes it again.
template <bool kDeep>
HWY_NOINLINE HWY_MAYBE_UNUSED static void round_through_codes(const CodecParams& format,
                                                              float* sums) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const CodecParams p = format;  // its address does not leave, so it can live in registers
  for (std::size_t i = 0; i < micro_floats; i += float_lanes) {
    const auto code = encode_lanes<RoundingClass::nearest_even, kDeep>(
        du, p, hn::BitCast(du, hn::Load(d, sums + i)), hn::Zero(du));
    hn::Store(hn::BitCast(d, decode_lanes<kDeep>(du, p, code)), d, sums + i);
  }
}

static inline RoundSums rounding_to(const FloatFormat& format, const CodecParams& params) {
  if (params.fp32_layout && format.mantissa_bits < 23 &&
      format.resolved_overflow() == Overflow::infinity)
    return cut_mantissas;
  return params.deep ? round_through_codes<true> : round_through_codes<false>;
}

// Adds the running sums to totals that are `stride` floats apart. `first`: the totals count as 0.
HWY_NOINLINE HWY_MAYBE_UNUSED static void join_totals(const float* sums, bool first, float* totals,
                                                      std::size_t stride) {
  const Floats d;
  for (std::size_t row = 0; row < micro_rows; ++row, totals += stride)
    for (std::size_t at = 0; at < micro_columns; at += float_lanes) {
      const FloatVector before = first ? hn::Zero(d) : hn::Load(d, totals + at);
      hn::Store(hn::Add(before, hn::Load(d, sums + row * micro_columns + at)), d, totals + at);
    }
}

namespace {  // internal linkage: units with other flags have their own

class RoundedSumsProduct {
 public:
  explicit RoundedSumsProduct(const GemmArgs& args)
      : args_(args),
        whole_{0, args.k},
        bounds_(args.segments.bounds != nullptr ? args.segments.bounds : whole_),
        segments_(args.segments.bounds != nullptr ? args.segments.count : 1),
        a_(args.a, args.m, args.k, args.a.row_stride, args.a.column_stride),
        b_(args.b, args.n, args.k, args.b.column_stride, args.b.row_stride),
        workspace_(args),
        buffer_(new (workspace_.pack) PackBuffer),
        epilogue_(args),
        codec_(make_codec_params(args.accumulation.format)),
        round_(rounding_to(args.accumulation.format, codec_)) {}

  void run() {
    const std::size_t columns = even_share(args_.n, gemm_tile_columns, micro_columns);
    const std::size_t stride = columns + gemm_tile_padding;
    const std::size_t room =
        gemm_tile_capacity(gemm_levels(segments_)) / stride / micro_rows * micro_rows;
    const std::size_t rows = even_share(args_.m, (std::min)(room, study_rows), micro_rows);
    tile_floats_ = rows * stride;
    running_ = workspace_.b + columns * study_depth;
    for (std::size_t column = 0; column < args_.n; column += columns)
      for (std::size_t row = 0; row < args_.m; row += rows)
        run_tile({row, column, (std::min)(rows, args_.m - row),
                  (std::min)(columns, args_.n - column), stride});
    epilogue_.finish();
  }

 private:
  void run_tile(const GemmTile& tile) {
    const std::size_t floats = tile.rows * tile.stride;
    const auto sums = [&](std::size_t level) { return workspace_.tiles + level * tile_floats_; };
    sum_in_tree(
        segments_,
        [&](std::size_t segment, std::size_t level) {
          if (bounds_[segment] == bounds_[segment + 1])
            std::fill_n(sums(level), floats, 0.0f);
          else
            sum_segment(tile, bounds_[segment], bounds_[segment + 1], sums(level));
        },
        [&](std::size_t level) {
          for (std::size_t at = 0; at < floats; at += tile.stride)
            add_in_place(sums(level + 1) + at, tile.columns, sums(level) + at);
        });
    epilogue_.apply(tile.row, tile.column, tile.rows, tile.columns, workspace_.tiles, tile.stride);
  }

  void sum_segment(const GemmTile& tile, std::size_t first, std::size_t end, float* totals) {
    for (std::size_t k = first; k < end; k += study_depth) {
      const std::size_t depth = (std::min)(study_depth, end - k);
      b_.template pack<micro_columns, micro_columns>(tile.column, tile.columns, k, depth, *buffer_,
                                                     workspace_.b);
      a_.template pack<micro_rows, micro_row_width>(tile.row, tile.rows, k, depth, *buffer_,
                                                    workspace_.a);
      float* sums = running_;
      for (std::size_t j = 0; j < tile.columns; j += micro_columns)
        for (std::size_t i = 0; i < tile.rows; i += micro_rows, sums += micro_floats)
          add_products(k - first, depth, end - first,
                       workspace_.a + i / micro_rows * micro_row_width * depth,
                       workspace_.b + j * depth, sums, totals + i * tile.stride + j, tile.stride);
    }
  }

  // Adds `depth` products of a segment of `length` to the running sums of a micro-tile, from
  // product `position` on.
  void add_products(std::size_t position, std::size_t depth, std::size_t length, const float* a,
                    const float* b, float* sums, float* totals, std::size_t stride) const {
    const std::size_t chunk = args_.accumulation.chunk;
    const bool promotes = args_.accumulation.promote != 0;
    const std::size_t interval = promotes ? args_.accumulation.promote : length;
    for (const std::size_t end = position + depth; position != end;) {
      const std::size_t within = position % interval;  // products that the running sums contain
      const std::size_t until_joined = (std::min)(interval - within, length - position);
      const std::size_t until_rounded = (std::min)(chunk - within % chunk, until_joined);
      const std::size_t steps = (std::min)(until_rounded, end - position);
      MicroKernel<FusedMultiplyAdd>::run(steps, {a, a + steps * micro_row_width}, b,
                                         {sums, micro_columns, within == 0});
      a += steps * micro_row_width;
      b += steps * micro_columns;
      position += steps;
      if (steps != until_rounded) continue;
      round_(codec_, sums);
      if (steps != until_joined) continue;
      if (promotes)
        join_totals(sums, position <= interval, totals, stride);
      else
        for (std::size_t row = 0; row < micro_rows; ++row)
          std::copy_n(sums + row * micro_columns, micro_columns, totals + row * stride);
    }
  }

  const GemmArgs& args_;
  std::size_t whole_[2];
  const std::size_t* bounds_;
  std::size_t segments_, tile_floats_ = 0;
  PackSource a_, b_;
  GemmWorkspace workspace_;
  PackBuffer* buffer_;
  EpilogueWriter epilogue_;
  CodecParams codec_;
  RoundSums round_;
  float* running_ = nullptr;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
