// Sums over a row. A run of row_run elements is summed in 16 logical lanes: lane i adds elements i,
// i + 16, ... in order, then lanes are added pairwise. The runs meet in a binary tree: 0 + 1,
// 2 + 3, ..., then neighbouring pairs, and so on; runs without a neighbour join at the end, the
// last ones first. So an element goes through row_run / 16 + 4 additions and one for each level of
// the tree, 68 + log2(n / 1024) for n elements, and a row of at most row_run elements is one run.

#if defined(SOMA_KERNELS_ROWS_ROW_SUMS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ROWS_ROW_SUMS_INL_HPP
#undef SOMA_KERNELS_ROWS_ROW_SUMS_INL_HPP
#else
#define SOMA_KERNELS_ROWS_ROW_SUMS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/simd/code_runs-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

static_assert(row_run % convert_chunk == 0);

namespace {  // internal linkage: units with other flags have their own

// The tree over the runs of a row, as a binary counter: the sum at a level waits for its right
// neighbour.
template <std::size_t kSums>
class RunTree {
 public:
  using Sums = std::array<float, kSums>;

  HWY_INLINE void add(const LaneSums<kSums>& lanes) {
    Sums sums;
    for (std::size_t k = 0; k < kSums; ++k) sums[k] = lanes.total(k);
    // Each trailing one bit of the run's number is a neighbour that waits.
    for (std::size_t bits = runs_++; (bits & 1) != 0; bits >>= 1) join(waiting_[--count_], sums);
    waiting_[count_++] = sums;
  }
  HWY_INLINE Sums total() {
    Sums sums = waiting_[--count_];
    while (count_ != 0) join(waiting_[--count_], sums);
    return sums;
  }

 private:
  static constexpr std::size_t levels = 64;

  HWY_INLINE static void join(const Sums& left, Sums& sums) {
    for (std::size_t k = 0; k < kSums; ++k) sums[k] = left[k] + sums[k];
  }

  std::size_t runs_ = 0, count_ = 0;
  Sums waiting_[levels];
};

}  // namespace

// kSums sums over a row of so many columns. add(first column, columns, lanes) adds a chunk of at
// most kChunk elements to the LaneSums of its run: convert_chunk, or row_run where elements are
// read in place.
template <std::size_t kSums, std::size_t kChunk = convert_chunk, class Add>
HWY_INLINE std::array<float, kSums> sums_of_row(std::size_t columns, const Add& add) {
  RunTree<kSums> tree;
  std::size_t begin = 0;
  do {  // without columns, one empty run: 0
    const std::size_t end = (std::min)(columns, begin + row_run);
    LaneSums<kSums> lanes;
    for (std::size_t first = begin; first < end; first += kChunk)
      add(first, (std::min)(kChunk, end - first), lanes);
    tree.add(lanes);
    begin = end;
  } while (begin < columns);
  return tree.total();
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
