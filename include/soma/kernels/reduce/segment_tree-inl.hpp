// Sums over rows in the fixed tree of Segments (operand.hpp), for a piece of columns at a time.

#if defined(SOMA_KERNELS_REDUCE_SEGMENT_TREE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_REDUCE_SEGMENT_TREE_INL_HPP
#undef SOMA_KERNELS_REDUCE_SEGMENT_TREE_INL_HPP
#else
#define SOMA_KERNELS_REDUCE_SEGMENT_TREE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_NOINLINE HWY_MAYBE_UNUSED static void add_floats(const float* HWY_RESTRICT from,
                                                     std::size_t count, float* HWY_RESTRICT to) {
  const Floats d;
  for (std::size_t i = 0; i < count; i += float_lanes)
    hn::Store(hn::Add(hn::Load(d, from + i), hn::Load(d, to + i)), d, to + i);
}

// The tree of Segments as a binary counter: at each level, one sum waits until its neighbour is
// complete. make(segment, level) makes a sum at a level, and join(level) adds the sum of the level
// above to it; in the end, level 0 has the sum of all segments.
template <class Make, class Join>
HWY_INLINE void sum_in_tree(std::size_t segments, const Make& make, const Join& join) {
  std::size_t waiting = 0;  // levels in use; the topmost is written next
  for (std::size_t segment = 0; segment < segments; ++segment) {
    make(segment, waiting++);
    // Each trailing one bit of the segment's number is a neighbour that waits.
    for (std::size_t left = segment; (left & 1) != 0; left >>= 1) join(--waiting - 1);
  }
}

namespace {  // internal linkage: units with other flags have their own

// Sums of kWidth floats (a multiple of 16).
template <std::size_t kWidth>
class SegmentTree {
 public:
  // Calls add(first row, end of rows, sums) for each run of each segment, with sums from zero;
  // returns the sum of all segments.
  template <class Add>
  const float* sum(const Segments& segments, std::size_t rows, const Add& add) {
    const std::size_t whole[2] = {0, rows};
    const std::size_t* bounds = segments.bounds != nullptr ? segments.bounds : whole;
    const std::size_t count = segments.bounds != nullptr ? segments.count : 1;
    sum_in_tree(
        count,
        [&](std::size_t segment, std::size_t level) {
          const std::size_t begin = bounds[segment], end = bounds[segment + 1];
          const std::size_t run = rows_of_run(end - begin);
          std::fill_n(sums_[level], kWidth, 0.0f);
          add(begin, (std::min)(begin + run, end), sums_[level]);
          for (std::size_t row = begin + run; row < end; row += run) {
            std::fill_n(run_, kWidth, 0.0f);
            add(row, (std::min)(row + run, end), run_);
            add_floats(run_, kWidth, sums_[level]);
          }
        },
        [&](std::size_t level) { add_floats(sums_[level + 1], kWidth, sums_[level]); });
    return sums_[0];
  }

 private:
  static constexpr std::size_t levels = 11;  // up to 1024 segments

  alignas(64) float sums_[levels][kWidth], run_[kWidth];
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
