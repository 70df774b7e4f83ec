// Products of the vector of each bag with the rows of a table that the bag names. Rows are
// scattered in memory, so fetching them takes most of the time: with four rows at a time, the
// multiply-adds add little.

#if defined(SOMA_KERNELS_SPARSE_BAG_DOTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_SPARSE_BAG_DOTS_INL_HPP
#undef SOMA_KERNELS_SPARSE_BAG_DOTS_INL_HPP
#else
#define SOMA_KERNELS_SPARSE_BAG_DOTS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/kernels/sparse/args.hpp>
#include <soma/kernels/sparse/row_steps-inl.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows that are multiplied together. The order of a row's sum does not depend on it.
inline constexpr std::size_t dots_at_once = 4;

static inline void bag_dots_entry(const BagDotsArgs& args) noexcept {
  const Floats d;
  const std::size_t columns = args.columns;
  const auto row_of = [&](std::size_t i) {
    return args.table + static_cast<std::size_t>(args.ids[i]) * columns;
  };
  const auto bias_of = [&](std::size_t i) {
    return args.bias == nullptr ? 0.0f : args.bias[args.ids[i]];
  };
  for (std::size_t bag = args.first; bag < args.last; ++bag) {
    const float* x = args.x + bag * columns;
    const std::size_t end = args.offsets[bag + 1];
    for (std::size_t i = args.offsets[bag]; i < end;) {
      for (std::size_t ahead = i + row_fetch_distance;
           ahead < end && ahead < i + row_fetch_distance + dots_at_once; ++ahead)
        fetch_row(args.table, static_cast<std::size_t>(args.ids[ahead]), columns);
      if (i + dots_at_once <= end) {
        LaneSums<dots_at_once> sums;
        accumulate<dots_at_once, dots_at_once + 1>(
            {x, row_of(i), row_of(i + 1), row_of(i + 2), row_of(i + 3)}, columns, sums,
            [&](FloatVector* sum, FloatVector v, FloatVector r0, FloatVector r1, FloatVector r2,
                FloatVector r3) {
              sum[0] = fused(d, v, r0, sum[0]);
              sum[1] = fused(d, v, r1, sum[1]);
              sum[2] = fused(d, v, r2, sum[2]);
              sum[3] = fused(d, v, r3, sum[3]);
            });
        for (std::size_t k = 0; k < dots_at_once; ++k)
          args.y[i + k] = sums.total(k) + bias_of(i + k);
        i += dots_at_once;
      } else {
        LaneSums<1> sums;
        accumulate<1, 2>({x, row_of(i)}, columns, sums,
                         [&](FloatVector* sum, FloatVector v, FloatVector row) {
                           sum[0] = fused(d, v, row, sum[0]);
                         });
        args.y[i] = sums.total() + bias_of(i);
        ++i;
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
