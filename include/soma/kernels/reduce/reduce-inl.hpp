// The reduce entries of the kernel table: sums and extremes of rows, sums of columns, the sum of
// squares, and whether a run is finite.

#if defined(SOMA_KERNELS_REDUCE_REDUCE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_REDUCE_REDUCE_INL_HPP
#undef SOMA_KERNELS_REDUCE_REDUCE_INL_HPP
#else
#define SOMA_KERNELS_REDUCE_REDUCE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/convert/stored_codec.hpp>
#include <soma/kernels/reduce/args.hpp>
#include <soma/kernels/reduce/column_sums-inl.hpp>
#include <soma/kernels/reduce/lane_sums-inl.hpp>
#include <soma/kernels/rows/row_sums-inl.hpp>
#include <soma/kernels/rows/run_io-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct RowBuffers {
  RunBuffer values, line;
  ConvertBuffers scratch;
};

// ---- extremes

// The bits of an fp32 number as an integer that ascends with it (-0 below +0); its own inverse.
template <class DI>
HWY_INLINE hn::Vec<DI> ordered(DI d, hn::Vec<DI> bits) {
  return hn::Xor(bits, hn::And(hn::ShiftRight<31>(bits), hn::Set(d, 0x7FFFFFFF)));
}
static inline std::int32_t ordered(std::int32_t bits) {
  return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
}

inline constexpr std::int32_t quiet_nan_bits = 0x7FC00000;

// The larger of `largest` and the values, as ordered integers. `flip` is xored with the sign bit of
// each value; NaN is above all numbers. `count` is a multiple of 16.
HWY_NOINLINE HWY_MAYBE_UNUSED static std::int32_t largest_ordered(const float* values,
                                                                  std::size_t count,
                                                                  std::int32_t flip,
                                                                  std::int32_t largest) {
  const hn::CappedTag<std::int32_t, run_group> d;
  const auto sign = hn::Set(d, flip), magnitude = hn::Set(d, 0x7FFFFFFF);
  const auto infinity = hn::Set(d, 0x7F800000), nan = hn::Set(d, quiet_nan_bits);
  auto best = hn::Set(d, largest);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto bits = load_bytes(d, values + i);
    const auto key = ordered(d, hn::Xor(bits, sign));
    const auto is_nan = hn::Gt(hn::And(bits, magnitude), infinity);
    best = hn::Max(best, hn::IfThenElse(is_nan, nan, key));
  }
  return hn::GetLane(hn::MaxOfLanes(d, best));
}

static inline const float* plain_run(const RunSource& source, std::size_t row, std::size_t column) {
  return reinterpret_cast<const float*>(source.data) + row * source.row_stride + column;
}

// A chunk of a row, which may consist of lines: whole groups of floats.
static inline const float* load_chunk(const RowReduceArgs& args, const RunSource& source,
                                      std::size_t row, std::size_t first, std::size_t count,
                                      RowBuffers& buffers) {
  float* const values = buffers.values.values;
  if (args.line == 0) return load_run(source, row, first, count, values, buffers.scratch);
  for (std::size_t done = 0; done < count;) {
    const std::size_t at = (first + done) % args.line, line = (first + done) / args.line;
    const std::size_t part = (std::min)(args.line - at, count - done);
    const std::size_t column = line * args.line_stride + at;
    const float* from =
        source.plain ? plain_run(source, row, column)
                     : load_run(source, row, column, part, buffers.line.values, buffers.scratch);
    std::memcpy(values + done, from, part * sizeof(float));
    done += part;
  }
  std::fill(values + count, values + whole_groups(count), 0.0f);
  return values;
}

// The minimum is minus the maximum of the negated numbers.
static inline float row_extreme(const RowReduceArgs& args, const RunSource& source, std::size_t row,
                                RowBuffers& buffers) {
  const std::int32_t flip = args.reduction == Reduction::minimum ? INT32_MIN : 0;
  std::int32_t largest = ordered(std::int32_t{INT32_MIN | 0x7F800000});  // -infinity
  for (std::size_t first = 0; first < args.columns; first += run_chunk) {
    const std::size_t count = (std::min)(run_chunk, args.columns - first);
    const float* values = load_chunk(args, source, row, first, count, buffers);
    // The padding of a group must not win: a copy of one of its elements does not.
    std::fill(buffers.values.values + count, buffers.values.values + whole_groups(count),
              values[0]);
    largest = largest_ordered(values, whole_groups(count), flip, largest);
  }
  const std::int32_t bits = largest == quiet_nan_bits ? largest : ordered(largest) ^ flip;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// ---- sums

static inline float row_sum(const RowReduceArgs& args, const RunSource& source, std::size_t row,
                            RowBuffers& buffers) {
  const bool in_place = source.plain && args.line == 0;
  return sums_of_row<1>(args.columns, [&](std::size_t first, std::size_t count, auto& lanes) {
    add_run(in_place ? plain_run(source, row, first)
                     : load_chunk(args, source, row, first, count, buffers),
            count, lanes);
  })[0];
}

static inline void reduce_rows(const RowReduceArgs& args) noexcept {
  const RunSource source = run_source(args.x);
  RowBuffers buffers;
  for (std::size_t row = 0; row < args.rows; ++row)
    args.out[row] = args.reduction == Reduction::sum ? row_sum(args, source, row, buffers)
                                                     : row_extreme(args, source, row, buffers);
}

static inline void column_sums(const ColumnSumArgs& args) noexcept {
  sum_rows_of({.rows = args.rows,
               .columns = args.columns,
               .x = args.x,
               .segments = args.segments,
               .accumulate = args.accumulate,
               .out = args.out});
}

static inline void sum_squares(SumSquaresArgs& args) noexcept {
  const RunSource source = run_source(args.x, args.dtype);
  RunBuffer buffer;
  ConvertBuffers scratch;
  SixteenLanes<double> sums;
  for (std::size_t first = 0; first < args.count; first += run_chunk) {
    const std::size_t count = (std::min)(run_chunk, args.count - first);
    const float* values = load_run(source, 0, first, count, buffer.values, scratch);
    add_squares(values, whole_groups(count), sums);
  }
  args.result = total(sums);
}

// ---- finite or not, by codes: nothing is decoded

// A code that is not finite sets the top bit of a difference: codes are below 2^31. `count` is a
// multiple of 16.
template <int kWidth>
HWY_NOINLINE HWY_MAYBE_UNUSED static bool finite_codes(const CodecParams& params,
                                                       const std::byte* from, std::size_t count) {
  const Lanes32 d;
  const CodecParams p = params;
  auto special = hn::Zero(d);
  if (p.nan_is_negative_zero) {
    // One code is NaN. Without the sign bit it is 0, and only 0 is below 1.
    const auto all = hn::Set(d, p.magnitude_mask | p.sign_mask), nan = hn::Set(d, p.sign_mask);
    for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
      const auto code = hn::Xor(hn::And(load_codes<kWidth>(d, p, from + i * kWidth), all), nan);
      special = hn::Or(special, hn::Sub(code, hn::Set(d, 1u)));
    }
  } else {
    // Infinities and NaN are above the largest number.
    const auto magnitude = hn::Set(d, p.magnitude_mask), largest = hn::Set(d, p.max_finite_code);
    for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
      const auto code = hn::And(load_codes<kWidth>(d, p, from + i * kWidth), magnitude);
      special = hn::Or(special, hn::Sub(largest, code));
    }
  }
  return hn::AllFalse(d, hn::Ne(hn::ShiftRight<31>(special), hn::Zero(d)));
}

static inline bool finite_chunk(const CodecParams& p, const std::byte* from, std::size_t count) {
  if (p.width == 1) return finite_codes<1>(p, from, count);
  if (p.width == 2) return finite_codes<2>(p, from, count);
  return finite_codes<4>(p, from, count);
}

static inline void all_finite(FiniteArgs& args) noexcept {
  args.finite = true;
  if (!is_floating(args.dtype)) return;
  const CodecParams codec = stored_codec(args.dtype);
  const auto width = static_cast<std::size_t>(codec.width);
  const auto* from = static_cast<const std::byte*>(args.x);
  // Large enough that the cost of a call does not matter, small enough that an overflow is found
  // early.
  constexpr std::size_t chunk = 8 * run_chunk;
  const std::size_t whole = args.count / run_group * run_group;
  for (std::size_t first = 0; first < whole && args.finite; first += chunk)
    args.finite = finite_chunk(codec, from + first * width, (std::min)(chunk, whole - first));
  if (whole == args.count || !args.finite) return;
  // Code 0 is a finite number of every format.
  alignas(64) std::byte last[4 * run_group] = {};
  std::memcpy(last, from + whole * width, (args.count - whole) * width);
  args.finite = finite_chunk(codec, last, run_group);
}

[[maybe_unused]] static constexpr ReduceKernels reduce_kernels{
    .rows = reduce_rows,
    .column_sums = column_sums,
    .sum_squares = sum_squares,
    .all_finite = all_finite,
};

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
