// The sum of rows, element by element, in the fixed order of Segments. Gradients of biases, scales
// and embeddings are such sums.

#if defined(SOMA_KERNELS_REDUCE_COLUMN_SUMS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_REDUCE_COLUMN_SUMS_INL_HPP
#undef SOMA_KERNELS_REDUCE_COLUMN_SUMS_INL_HPP
#else
#define SOMA_KERNELS_REDUCE_COLUMN_SUMS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/kernels/reduce/narrow_sums-inl.hpp>
#include <soma/kernels/rows/run_io-inl.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct RowSum {
  std::size_t rows = 0, columns = 0;
  const MatrixOperand& x;
  const std::uint32_t* list = nullptr;  // which rows of x; nullptr: 0, 1, ...
  const Segments& segments;
  bool accumulate = false;
  float* out = nullptr;
};

// In a tree over 2^10 segments, at most one partial sum waits at each of 10 levels.
inline constexpr std::size_t sum_levels = 10;
// The memory for the partial sums of all levels and the current one: 16 KiB, half of the smallest
// first-level cache. The partial sums of a run have as much. With fewer levels, more columns are
// summed together, so that rows are read in longer pieces.
inline constexpr std::size_t sum_room = 4096;
// The rows that are added in one pass over the partial sums, if a row has at least sum_rows_columns
// columns. Reading short pieces of several rows in turn is slower than reading one row after the
// other, if they come from memory (half as fast on a Zen 5).
inline constexpr std::size_t sum_rows = 4, sum_rows_columns = 256;

struct RowSumBuffers {
  alignas(64) float partial[sum_room];
  alignas(64) float run[sum_room];
  RunBuffer rows[sum_rows];
  ConvertBuffers scratch;
};

// sums[c] + row 0 [c] + row 1 [c] ..., one after the other. `count` is a multiple of 16.
template <std::size_t kRows>
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_rows(const float* const* rows, std::size_t count,
                                                   float* sums) {
  const hn::CappedTag<float, run_group> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    auto sum = hn::Load(d, sums + i);
    sum = hn::Add(sum, load_bytes(d, rows[0] + i));
    if constexpr (kRows == 4) {
      sum = hn::Add(sum, load_bytes(d, rows[1] + i));
      sum = hn::Add(sum, load_bytes(d, rows[2] + i));
      sum = hn::Add(sum, load_bytes(d, rows[3] + i));
    }
    hn::Store(sum, d, sums + i);
  }
}

// True if rows are adjacent bf16 numbers, which are added in place.
static inline bool are_codes(const RunSource& source) {
  return source.dtype == DType::bf16 && source.column_stride == 1 && source.scale == 1;
}

// add_rows() for such rows. Fetches the same columns of the rows that are `ahead` codes further on.
template <std::size_t kRows>
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_code_rows(const std::uint16_t* const* rows,
                                                        std::size_t count, std::size_t ahead,
                                                        float* sums) {
  const hn::CappedTag<float, run_group> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::uint16_t, decltype(d)> stored;
  constexpr std::size_t line = 32;  // codes of a cache line
  const auto widen = [&](const std::uint16_t* from) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, load_bytes(stored, from))));
  };
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    if (i % line == 0)
      for (std::size_t row = 0; row < kRows; ++row) hwy::Prefetch(rows[row] + i + ahead);
    auto sum = hn::Load(d, sums + i);
    for (std::size_t row = 0; row < kRows; ++row) sum = hn::Add(sum, widen(rows[row] + i));
    hn::Store(sum, d, sums + i);
  }
}

static inline void sum_code_run(const RowSum& args, const RunSource& source, std::size_t first,
                                std::size_t last, std::size_t column, std::size_t count,
                                float* sums) {
  std::fill(sums, sums + count, 0.0f);
  const std::uint16_t* rows[sum_rows];
  const auto place = [&](std::size_t row) {
    const std::size_t at = args.list != nullptr ? args.list[row] : row;
    return reinterpret_cast<const std::uint16_t*>(source.data) + at * source.row_stride + column;
  };
  // After the last rows of a run this fetches rows of the next run, or memory that nobody reads.
  const std::size_t ahead = args.list == nullptr ? sum_rows * source.row_stride : 0;
  std::size_t row = first;
  for (; count >= sum_rows_columns && row + sum_rows <= last; row += sum_rows) {
    for (std::size_t i = 0; i < sum_rows; ++i) rows[i] = place(row + i);
    add_code_rows<sum_rows>(rows, count, ahead, sums);
  }
  for (; row < last; ++row) {
    rows[0] = place(row);
    add_code_rows<1>(rows, count, 0, sums);
  }
}

// Adds rows first ... last - 1 of a piece of columns, from zero.
static inline void sum_run(const RowSum& args, const RunSource& source, std::size_t first,
                           std::size_t last, std::size_t column, std::size_t count, float* sums,
                           RowSumBuffers& buffers) {
  const std::size_t whole = whole_groups(count);
  if (are_codes(source) && whole == count)
    return sum_code_run(args, source, first, last, column, count, sums);
  std::fill(sums, sums + whole, 0.0f);
  const float* rows[sum_rows];
  const auto load = [&](std::size_t row, std::size_t place) {
    rows[place] = load_run(source, args.list != nullptr ? args.list[row] : row, column, count,
                           buffers.rows[place].values, buffers.scratch);
  };
  std::size_t row = first;
  const std::size_t together = count >= sum_rows_columns ? (last - first) / sum_rows : 0;
  for (const std::size_t end = first + together * sum_rows; row < end; row += sum_rows) {
    for (std::size_t place = 0; place < sum_rows; ++place) load(row + place, place);
    add_rows<sum_rows>(rows, whole, sums);
  }
  for (; row < last; ++row) {
    load(row, 0);
    add_rows<1>(rows, whole, sums);
  }
}

// The same for a segment, run by run.
static inline void sum_segment(const RowSum& args, const RunSource& source, std::size_t first,
                               std::size_t last, std::size_t column, std::size_t count, float* sums,
                               RowSumBuffers& buffers) {
  const std::size_t rows = rows_of_run(last - first);
  sum_run(args, source, first, (std::min)(first + rows, last), column, count, sums, buffers);
  for (std::size_t row = first + rows; row < last; row += rows) {
    const float* const run[1] = {buffers.run};
    sum_run(args, source, row, (std::min)(row + rows, last), column, count, buffers.run, buffers);
    add_rows<1>(run, whole_groups(count), sums);
  }
}

// The number of levels of the tree at which a partial sum may have to wait.
static inline std::size_t waiting_levels(const Segments& segments) {
  if (segments.bounds == nullptr) return 0;
  std::size_t levels = 0;
  while (segments.count >> levels > 1) ++levels;
  return levels;
}

// Adds segments in a tree, as a binary counter: after segment s, the partial sum at level l waits
// for its right neighbour if bit l of s + 1 is set. Returns the sum of all segments.
static inline const float* sum_tree(const RowSum& args, const RunSource& source, std::size_t column,
                                    std::size_t count, RowSumBuffers& buffers) {
  const std::size_t whole = whole_groups(count);
  float* waiting[sum_levels];
  const std::size_t levels = waiting_levels(args.segments);
  for (std::size_t level = 0; level < levels; ++level)
    waiting[level] = buffers.partial + level * whole;
  float* current = buffers.partial + levels * whole;
  const bool cut = args.segments.bounds != nullptr;
  const std::size_t segments = cut ? args.segments.count : 1;
  for (std::size_t segment = 0; segment < segments; ++segment) {
    const std::size_t first = cut ? args.segments.bounds[segment] : 0;
    const std::size_t last = cut ? args.segments.bounds[segment + 1] : args.rows;
    sum_segment(args, source, first, last, column, count, current, buffers);
    std::size_t level = 0;
    for (std::size_t bits = segment; (bits & 1) != 0; bits >>= 1, ++level) {
      const float* left[1] = {waiting[level]};
      add_rows<1>(left, whole, current);
    }
    if (segment + 1 != segments) std::swap(current, waiting[level]);
  }
  return current;
}

static inline void sum_rows_of(const RowSum& args) {
  if (args.list == nullptr &&
      sum_narrow(args.x, args.segments, args.rows, args.columns, args.accumulate, args.out))
    return;
  const RunSource source = run_source(args.x);
  RowSumBuffers buffers;
  const std::size_t fit = sum_room / (waiting_levels(args.segments) + 1) / run_group * run_group;
  const bool in_place = source.plain || are_codes(source);
  const std::size_t most = in_place ? fit : (std::min)(fit, run_chunk);
  for (std::size_t column = 0; column < args.columns;) {
    std::size_t count = (std::min)(most, args.columns - column);
    // Whole groups are added in place; the rest of a row is a piece of its own.
    if (in_place && count > run_group) count = count / run_group * run_group;
    const float* sums = sum_tree(args, source, column, count, buffers);
    float* out = args.out + column;
    for (std::size_t i = 0; i < count; ++i) out[i] = args.accumulate ? out[i] + sums[i] : sums[i];
    column += count;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
