// Embedding bags: sums of the rows of a table, and the gradient of the table.

#if defined(SOMA_KERNELS_SPARSE_BAGS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_SPARSE_BAGS_INL_HPP
#undef SOMA_KERNELS_SPARSE_BAGS_INL_HPP
#else
#define SOMA_KERNELS_SPARSE_BAGS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/kernels/reduce/segment_tree-inl.hpp>
#include <soma/kernels/rows/run_io-inl.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/kernels/sparse/args.hpp>
#include <soma/simd/fused-inl.hpp>
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

// Columns that are summed in registers: four groups of 16 leave room for a row on every target.
inline constexpr std::size_t bag_groups = 4;
inline constexpr std::size_t bag_columns = bag_groups * sum_lanes;
// Rows of a table are scattered in memory. A row is prefetched this many ids before it is needed:
// about the time of one access to memory.
inline constexpr std::size_t bag_fetch_distance = 16;

template <class Id>
HWY_INLINE std::size_t bag_id(const BagArgs& args, std::size_t i) {
  Id id;
  std::memcpy(&id, static_cast<const std::byte*>(args.ids) + i * sizeof id, sizeof id);
  return static_cast<std::size_t>(id);
}

HWY_INLINE float bag_scale(const BagArgs& args, std::size_t count) {
  return args.mean && count != 0 ? 1.0f / static_cast<float>(count) : 1.0f;
}

// kGroups groups of 16 columns of a plain fp32 table, for one bag.
template <std::size_t kGroups, class Id>
HWY_NOINLINE HWY_MAYBE_UNUSED static void sum_bag(const BagArgs& args, std::size_t begin,
                                                  std::size_t end, std::size_t column, float* out) {
  constexpr std::size_t vectors = kGroups * sum_lanes / float_lanes;
  const Floats d;
  const float* table = static_cast<const float*>(args.table.data) + column;
  const auto row_of = [&](std::size_t i) {
    return table + bag_id<Id>(args, i) * args.table.row_stride;
  };
  FloatVector sums[vectors];
  alignas(64) float runs[kGroups * sum_lanes];  // the sum of the runs before
  const std::size_t run = rows_of_run(end - begin);
  for (std::size_t first = begin;; first += run) {
    for (std::size_t k = 0; k < vectors; ++k) sums[k] = hn::Zero(d);
    const std::size_t last = (std::min)(first + run, end);
    for (std::size_t i = first; i < last; ++i) {
      if (i + bag_fetch_distance < end) {
        const float* ahead = row_of(i + bag_fetch_distance);
        for (std::size_t k = 0; k < kGroups; ++k) hwy::Prefetch(ahead + k * sum_lanes);
      }
      const float* row = row_of(i);
      if (args.weights != nullptr) {
        const auto weight = hn::Set(d, args.weights[i]);
        for (std::size_t k = 0; k < vectors; ++k)
          sums[k] = fused(d, weight, load_bytes(d, row + k * float_lanes), sums[k]);
      } else {
        for (std::size_t k = 0; k < vectors; ++k)
          sums[k] = hn::Add(sums[k], load_bytes(d, row + k * float_lanes));
      }
    }
    if (first != begin)
      for (std::size_t k = 0; k < vectors; ++k)
        sums[k] = hn::Add(hn::Load(d, runs + k * float_lanes), sums[k]);
    if (last == end) break;
    for (std::size_t k = 0; k < vectors; ++k) hn::Store(sums[k], d, runs + k * float_lanes);
  }
  const auto scale = hn::Set(d, bag_scale(args, end - begin));
  for (std::size_t k = 0; k < vectors; ++k)
    store_bytes(d, hn::Mul(sums[k], scale), out + k * float_lanes);
}

template <class Id>
static inline void bags_in_registers(const BagArgs& args) {
  for (std::size_t bag = args.first; bag < args.last; ++bag) {
    const std::size_t begin = args.offsets[bag], end = args.offsets[bag + 1];
    float* y = static_cast<float*>(args.y.data) + bag * args.y.row_stride;
    for (std::size_t column = 0; column < args.columns; column += bag_columns) {
      const std::size_t groups = (std::min)(args.columns - column, bag_columns) / sum_lanes;
      if (groups == 4) sum_bag<4, Id>(args, begin, end, column, y + column);
      if (groups == 3) sum_bag<3, Id>(args, begin, end, column, y + column);
      if (groups == 2) sum_bag<2, Id>(args, begin, end, column, y + column);
      if (groups == 1) sum_bag<1, Id>(args, begin, end, column, y + column);
    }
  }
}

// For any type and any number of columns. For fp32 the bits are the same.
template <class Id>
static inline void bags_converted(const BagArgs& args) {
  const RunSource source = run_source(args.table);
  const MatrixTarget& y = args.y;
  const Floats d;
  RunBuffer row, sums, runs;
  ConvertBuffers scratch;
  for (std::size_t bag = args.first; bag < args.last; ++bag) {
    const std::size_t begin = args.offsets[bag], end = args.offsets[bag + 1];
    const auto scale = hn::Set(d, bag_scale(args, end - begin));
    RunTarget target = run_target(y.data, y.dtype, y.rounding, y.draw);
    target.data += bag * y.row_stride * size_of(y.dtype);
    for (std::size_t column = 0; column < args.columns; column += run_chunk) {
      const std::size_t count = (std::min)(run_chunk, args.columns - column);
      const std::size_t whole = whole_groups(count);
      const std::size_t run = rows_of_run(end - begin);
      for (std::size_t first = begin;; first += run) {
        std::fill(sums.values, sums.values + whole, 0.0f);
        const std::size_t last = (std::min)(first + run, end);
        for (std::size_t i = first; i < last; ++i) {
          const float* values =
              load_run(source, bag_id<Id>(args, i), column, count, row.values, scratch);
          const auto weight = hn::Set(d, args.weights != nullptr ? args.weights[i] : 1.0f);
          for (std::size_t c = 0; c < whole; c += float_lanes) {
            const auto sum = hn::Load(d, sums.values + c), value = load_bytes(d, values + c);
            hn::Store(args.weights != nullptr ? fused(d, weight, value, sum) : hn::Add(sum, value),
                      d, sums.values + c);
          }
        }
        if (first != begin) add_floats(runs.values, whole, sums.values);
        if (last == end) break;
        std::copy_n(sums.values, whole, runs.values);
      }
      for (std::size_t c = 0; c < whole; c += float_lanes)
        hn::Store(hn::Mul(hn::Load(d, sums.values + c), scale), d, sums.values + c);
      store_run(target, column, count, sums.values, scratch);
    }
  }
}

static inline void bag_entry(const BagArgs& args) noexcept {
  const bool in_registers = args.table.dtype == DType::fp32 && args.table.column_stride == 1 &&
                            args.table.scale == 1 && args.y.dtype == DType::fp32 &&
                            args.columns % sum_lanes == 0;
  if (args.id_dtype == DType::int32)
    in_registers ? bags_in_registers<std::int32_t>(args) : bags_converted<std::int32_t>(args);
  else
    in_registers ? bags_in_registers<std::int64_t>(args) : bags_converted<std::int64_t>(args);
}

namespace {  // internal linkage: units with other flags have their own

// The sum of some rows of dy for one id, a block of columns at a time. The tree leaves out empty
// segments: sums begin at +0, so adding an empty segment changes no bit.
class BagGradientSum {
 public:
  BagGradientSum(const BagGradientArgs& args, std::size_t column, std::size_t columns)
      : args_(args), column_(column), columns_(columns) {}

  // Entries begin ... end - 1 of the list.
  const float* sum(std::size_t begin, std::size_t end) {
    std::size_t waiting = 0;
    for (std::size_t i = begin; i < end;) {
      const std::uint32_t segment = segment_of(i);
      // A waiting subtree is complete if it is smaller than the border to this segment.
      while (waiting >= 2 && border(waiting - 2) < (segments_[waiting - 1] ^ segment))
        join(--waiting);
      float* partial = sums_[waiting];
      std::size_t stop = i + 1;
      while (stop < end && segment_of(stop) == segment) ++stop;
      const std::size_t run = rows_of_run(stop - i);
      for (bool opens = true; i < stop; opens = false) {
        float* const to = opens ? partial : run_;
        std::fill(to, to + columns_, 0.0f);
        for (const std::size_t last = (std::min)(i + run, stop); i < last; ++i) add(i, to);
        if (!opens) add_floats(run_, columns_, partial);
      }
      segments_[waiting++] = segment;
    }
    while (waiting >= 2) join(--waiting);
    if (waiting == 0) std::fill(sums_[0], sums_[0] + columns_, 0.0f);
    return sums_[0];
  }

 private:
  // Memory for a waiting sum at each level of a tree over 1024 segments, and for the current sum.
  static constexpr std::size_t levels = 12;

  std::uint32_t segment_of(std::size_t i) const {
    return args_.segments[static_cast<std::size_t>(args_.list[i])];
  }
  // The bits in which two waiting neighbours differ: the higher the highest of them, the higher in
  // the tree the neighbours are added.
  std::uint32_t border(std::size_t i) const { return highest(segments_[i] ^ segments_[i + 1]); }
  // The highest bit and all bits below it.
  static std::uint32_t highest(std::uint32_t bits) {
    for (const int shift : {1, 2, 4, 8, 16}) bits |= bits >> shift;
    return bits;
  }
  // The sum `upper` is added to its neighbour; together they count as the neighbour's segment.
  void join(std::size_t upper) {
    const Floats d;
    for (std::size_t c = 0; c < columns_; c += float_lanes)
      hn::Store(hn::Add(hn::Load(d, sums_[upper - 1] + c), hn::Load(d, sums_[upper] + c)), d,
                sums_[upper - 1] + c);
    segments_[upper - 1] = segments_[upper];
  }
  void add(std::size_t i, float* partial) const {
    const Floats d;
    const float* row =
        args_.dy + static_cast<std::size_t>(args_.list[i]) * args_.dy_stride + column_;
    if (args_.weights != nullptr) {
      const auto weight = hn::Set(d, args_.weights[i]);
      for (std::size_t c = 0; c < columns_; c += float_lanes)
        hn::Store(fused(d, weight, load_bytes(d, row + c), hn::Load(d, partial + c)), d,
                  partial + c);
    } else {
      for (std::size_t c = 0; c < columns_; c += float_lanes)
        hn::Store(hn::Add(hn::Load(d, partial + c), load_bytes(d, row + c)), d, partial + c);
    }
  }

  const BagGradientArgs& args_;
  std::size_t column_, columns_;
  std::uint32_t segments_[levels] = {};
  alignas(64) float sums_[levels][bag_columns], run_[bag_columns];
};

}  // namespace

// For one or two entries without weights, as for most ids of a text: their sum has only one order.
HWY_INLINE void sum_few(const BagGradientArgs& args, std::size_t begin, std::size_t entries,
                        std::size_t column, std::size_t columns, float* out) {
  const Floats d;
  const auto row = [&](std::size_t i) {
    return args.dy + static_cast<std::size_t>(args.list[i]) * args.dy_stride + column;
  };
  const float *first = row(begin), *second = row(begin + entries - 1);
  for (std::size_t c = 0; c < columns; c += float_lanes) {
    auto sum = hn::Add(hn::Zero(d), load_bytes(d, first + c));
    if (entries == 2) sum = hn::Add(sum, load_bytes(d, second + c));
    store_bytes(d, sum, out + c);
  }
}

static inline void bag_gradient_entry(const BagGradientArgs& args) noexcept {
  for (std::size_t column = 0; column < args.columns; column += bag_columns) {
    const std::size_t count = (std::min)(args.columns - column, bag_columns);
    const bool whole = count % sum_lanes == 0 && args.weights == nullptr;
    BagGradientSum sum(args, column, whole_groups(count));
    for (std::size_t k = args.first; k < args.last; ++k) {
      const auto begin = static_cast<std::size_t>(args.starts[k]);
      const auto end = static_cast<std::size_t>(args.starts[k + 1]);
      float* out = args.out + k * args.columns + column;
      if (whole && (end - begin == 1 || end - begin == 2))
        sum_few(args, begin, end - begin, column, count, out);
      else
        std::memcpy(out, sum.sum(begin, end), count * sizeof(float));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
