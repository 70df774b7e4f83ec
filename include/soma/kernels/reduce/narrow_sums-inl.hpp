// Sums over the rows of few columns, such as a vector. Within a run of rows (rows_of_run), each
// addition waits for the one before. So 16 runs are summed side by side in the lanes of vectors.
// Each lane adds its run in the documented order, so the bits are the same as those of
// sum_rows_of().

#if defined(SOMA_KERNELS_REDUCE_NARROW_SUMS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_REDUCE_NARROW_SUMS_INL_HPP
#undef SOMA_KERNELS_REDUCE_NARROW_SUMS_INL_HPP
#else
#define SOMA_KERNELS_REDUCE_NARROW_SUMS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/kernels/rows/run_io-inl.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// With 16 columns, a row fills a vector, and narrow sums bring nothing.
inline constexpr std::size_t narrow_columns = 15;
// Vectors have at most 8 lanes, because parts of wider ones are joined slowly.
inline constexpr std::size_t narrow_runs = 16, narrow_lanes = 8;
// The floats of each run that are copied at a time, if a run cannot be added in place: 16 KiB, half
// of the smallest first-level cache. The pitch keeps runs in different cache lines.
inline constexpr std::size_t narrow_piece = 256, narrow_pitch = narrow_piece + run_group;
inline constexpr std::size_t narrow_levels = 10;  // levels of the tree over up to 2^10 segments

struct NarrowBuffers {
  alignas(64) float values[narrow_runs * narrow_pitch];
  alignas(64) float sums[narrow_columns * narrow_runs];
  ConvertBuffers scratch;
};

// The memory to prefetch while sixteen runs are added. A CPU recognises one stream of addresses,
// but not sixteen, so the next runs are prefetched in the order of their addresses.
struct Fetched {
  std::uintptr_t at = 0;
  std::size_t bytes = 0;  // with sixteen floats of each run
  std::uintptr_t end = at;
  // Prefetches one of `parts` parts.
  void fetch(std::size_t parts = 1) {
    for (end += bytes / parts; at < end; at += 64)
      fetch_to_second_level(reinterpret_cast<const void*>(at));
  }
};

#if HWY_TARGET == HWY_SCALAR

static inline void add_side_by_side(const float* const* runs, std::size_t taken, std::size_t count,
                                    std::size_t columns, Fetched, float* sums) {
  for (std::size_t run = 0; run < taken; ++run)
    for (std::size_t i = 0; i < count; ++i) sums[i % columns * narrow_runs + run] += runs[run][i];
}

#else

// Transposes four floats of each of Lanes(d) runs, block by block.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const float* const* runs, std::size_t at) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return load_bytes(d, runs[0] + at);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, runs + hn::MaxLanes(half), at),
                       load_blocks(half, runs, at));
  }
}

// Calls add(k, vector) for k = 0 ... 3 with element at + k of Lanes(d) runs, in that order.
template <class D, class Add>
HWY_INLINE void transpose_four(D d, const float* const* runs, std::size_t at, const Add& add) {
  const hn::Repartition<double, D> pairs;
  const auto run_0 = load_blocks(d, runs, at), run_1 = load_blocks(d, runs + 1, at);
  const auto run_2 = load_blocks(d, runs + 2, at), run_3 = load_blocks(d, runs + 3, at);
  const auto low_01 = hn::BitCast(pairs, hn::InterleaveLower(d, run_0, run_1));
  const auto low_23 = hn::BitCast(pairs, hn::InterleaveLower(d, run_2, run_3));
  const auto high_01 = hn::BitCast(pairs, hn::InterleaveUpper(d, run_0, run_1));
  const auto high_23 = hn::BitCast(pairs, hn::InterleaveUpper(d, run_2, run_3));
  add(0, hn::BitCast(d, hn::InterleaveLower(pairs, low_01, low_23)));
  add(1, hn::BitCast(d, hn::InterleaveUpper(pairs, low_01, low_23)));
  add(2, hn::BitCast(d, hn::InterleaveLower(pairs, high_01, high_23)));
  add(3, hn::BitCast(d, hn::InterleaveUpper(pairs, high_01, high_23)));
}

// For one column: the sums of a vector's runs stay in a register for whole cache lines of each run.
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_column_side_by_side(const float* const* runs,
                                                                  std::size_t taken,
                                                                  std::size_t count, Fetched next,
                                                                  float* sums) {
  const hn::CappedTag<float, narrow_lanes> d;
  constexpr std::size_t lanes = hn::MaxLanes(d);
  for (std::size_t i = 0; i < count; i += run_group) {
    for (std::size_t run = 0; run < taken; run += lanes) {
      auto sum = hn::Load(d, sums + run);
      for (std::size_t at = i; at < i + run_group; at += 4) {
        next.fetch(narrow_runs / lanes * (run_group / 4));
        transpose_four(d, runs + run, at,
                       [&sum](std::size_t, auto value) HWY_ATTR { sum = hn::Add(sum, value); });
      }
      hn::Store(sum, d, sums + run);
    }
  }
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void add_rows_side_by_side(const float* const* runs,
                                                                std::size_t taken,
                                                                std::size_t count,
                                                                std::size_t columns,
                                                                Fetched following, float* sums) {
  const hn::CappedTag<float, narrow_lanes> d;
  constexpr std::size_t lanes = hn::MaxLanes(d);
  std::size_t column = 0;
  for (std::size_t at = 0; at < count; at += 4) {
    if (at % run_group == 0) following.fetch();
    std::size_t next[5] = {column};
    for (std::size_t k = 0; k < 4; ++k) next[k + 1] = next[k] + 1 == columns ? 0 : next[k] + 1;
    for (std::size_t run = 0; run < taken; run += lanes)
      transpose_four(d, runs + run, at, [d, sums, run, &next](std::size_t k, auto value) HWY_ATTR {
        float* sum = sums + next[k] * narrow_runs + run;
        hn::Store(hn::Add(hn::Load(d, sum), value), d, sum);
      });
    column = next[4];
  }
}

// Adds `count` floats (a multiple of 16) of each run, row by row of `columns`.
static inline void add_side_by_side(const float* const* runs, std::size_t taken, std::size_t count,
                                    std::size_t columns, const Fetched& next, float* sums) {
  if (columns == 1)
    add_column_side_by_side(runs, taken, count, next, sums);
  else
    add_rows_side_by_side(runs, taken, count, columns, next, sums);
}

#endif

namespace {  // internal linkage: units with other flags have their own

class NarrowSum {
 public:
  // The rows of `source` are adjacent, or there is a single column, whose rows are then columns of
  // `source`.
  NarrowSum(const RunSource& source, std::size_t columns, const Segments& segments,
            std::size_t rows)
      : source_(source), columns_(columns) {
    const std::size_t whole[2] = {0, rows};
    const std::size_t* bounds = segments.bounds != nullptr ? segments.bounds : whole;
    const std::size_t count = segments.bounds != nullptr ? segments.count : 1;
    for (std::size_t segment = 0; segment < count; ++segment) {
      const std::size_t begin = bounds[segment], end = bounds[segment + 1];
      const std::size_t run = rows_of_run(end - begin);
      std::size_t row = begin;
      do {
        runs_[taken_++] = {row, (std::min)(row + run, end), row == begin, end - row <= run};
        if (taken_ == narrow_runs) sum_runs();
        row += run;
      } while (row < end);
    }
    sum_runs();
  }
  float operator[](std::size_t column) const { return current_[column]; }

 private:
  struct Run {
    std::size_t first, last;
    bool opens, closes;  // a segment
  };

  void sum_runs() {
    std::fill(buffers_.sums, buffers_.sums + columns_ * narrow_runs, 0.0f);
    std::size_t longest = 0;
    for (std::size_t i = 0; i < taken_; ++i)
      longest = (std::max)(longest, runs_[i].last - runs_[i].first);
    // Adds whole vectors of runs; results beyond the last run are not used.
    const std::size_t taken = (taken_ + narrow_lanes - 1) / narrow_lanes * narrow_lanes;
    const std::size_t most = narrow_piece / columns_;
    const float* from[narrow_runs];
    for (std::size_t row = 0; row < longest; row += most) {
      const std::size_t count = whole_groups((std::min)(most, longest - row) * columns_);
      for (std::size_t i = 0; i < taken_; ++i) from[i] = load(i, row, most, count);
      for (std::size_t i = taken_; i < taken; ++i) from[i] = from[0];
      add_side_by_side(from, taken, count, columns_, next_runs(row), buffers_.sums);
    }
    for (std::size_t i = 0; i < taken_; ++i) join(i);
    taken_ = 0;
  }

  // The next runs, as many as are prefetched while the current runs are added.
  Fetched next_runs(std::size_t row) const {
    if (taken_ != narrow_runs || source_.column_stride != 1) return {};
    const std::size_t before = (runs_[taken_ - 1].last + narrow_runs * row) * columns_;
    return {reinterpret_cast<std::uintptr_t>(source_.data) + before * source_.width,
            source_.width * narrow_runs * run_group};
  }

  // Zeros follow a run that is shorter than others: a sum is never -0, so they change no bit.
  const float* load(std::size_t index, std::size_t row, std::size_t most, std::size_t count) {
    float* values = buffers_.values + index * narrow_pitch;
    const Run& run = runs_[index];
    const std::size_t first = (std::min)(run.first + row, run.last);
    const std::size_t loaded = (std::min)(most, run.last - first) * columns_;
    if (loaded != 0) {
      const float* from = load_run(source_, 0, first * columns_, loaded, values, buffers_.scratch);
      if (loaded == count) return from;
      if (from != values) std::memcpy(values, from, loaded * sizeof(float));
    }
    std::fill(values + loaded, values + count, 0.0f);
    return values;
  }

  // Adds a run to its segment, and a whole segment to the tree of a binary counter (sum_tree()).
  void join(std::size_t index) {
    for (std::size_t column = 0; column < columns_; ++column) {
      const float sum = buffers_.sums[column * narrow_runs + index];
      current_[column] = runs_[index].opens ? sum : current_[column] + sum;
    }
    if (!runs_[index].closes) return;
    std::size_t level = 0;
    for (std::size_t bits = segment_++; (bits & 1) != 0; bits >>= 1, ++level)
      for (std::size_t column = 0; column < columns_; ++column)
        current_[column] += waiting_[level][column];
    std::copy_n(current_, columns_, waiting_[level]);
  }

  const RunSource& source_;
  std::size_t columns_, taken_ = 0, segment_ = 0;
  Run runs_[narrow_runs];
  float current_[narrow_columns] = {}, waiting_[narrow_levels + 1][narrow_columns];
  NarrowBuffers buffers_;
};

}  // namespace

// True if adding runs side by side is faster than one row after the other. For each column, a step
// with a vector of lanes takes about a fifth of the time of a row.
static inline bool worth_side_by_side(const Segments& segments, std::size_t rows,
                                      std::size_t columns) {
  std::size_t longest = segments.bounds == nullptr ? rows : 0;
  if (segments.bounds != nullptr)
    for (std::size_t i = 0; i < segments.count; ++i)
      longest = (std::max)(longest, segments.bounds[i + 1] - segments.bounds[i]);
  return columns <= 4 * (rows / (std::min)(longest, rows_of_run(longest)));
}

// Computes the sums of few columns; returns false if adding one row after the other is better.
static inline bool sum_narrow(const MatrixOperand& x, const Segments& segments, std::size_t rows,
                              std::size_t columns, bool accumulate, float* out) {
  if (columns == 0 || columns > narrow_columns || rows == 0) return false;
  const bool adjacent = columns > 1 && x.row_stride == columns && x.column_stride == 1;
  // Columns that are not adjacent are read separately.
  if (columns > 4 && !adjacent) return false;
  const std::size_t together = adjacent ? columns : 1;
  if (!worth_side_by_side(segments, rows, columns)) return false;
  for (std::size_t column = 0; column < columns; column += together) {
    MatrixOperand part = detail::part(x, 0, column);
    if (!adjacent) part.column_stride = x.row_stride;
    const RunSource source = run_source(part);
    const NarrowSum sums(source, together, segments, rows);
    for (std::size_t i = 0; i < together; ++i) {
      float& to = out[column + i];
      to = accumulate ? to + sums[i] : sums[i];
    }
  }
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
