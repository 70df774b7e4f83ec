// The sums of a row around a center near its mean, from which kernels/norm/moments.hpp makes mean
// and variance.

#if defined(SOMA_KERNELS_NORM_MOMENTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_NORM_MOMENTS_INL_HPP
#undef SOMA_KERNELS_NORM_MOMENTS_INL_HPP
#else
#define SOMA_KERNELS_NORM_MOMENTS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/norm/moments.hpp>
#include <soma/kernels/rows/row_sums-inl.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {  // internal linkage: units with other flags have their own

// The sums of x - center and of its square.
struct CenteredSums {
  float center = 0, rest = 0, square = 0;
};

}  // namespace

// sums[0] += (x - center)^2, and with two sums sums[1] += x - center.
template <std::size_t kSums>
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_deviations(const float* x, std::size_t count,
                                                         float center, LaneSums<kSums>& sums) {
  const FloatVector middle = hn::Set(Floats(), center);
  accumulate<kSums, 1>({x}, count, sums, [&](FloatVector* sum, FloatVector v) HWY_ATTR {
    const FloatVector difference = hn::Sub(v, middle);
    sum[0] = fused(Floats(), difference, difference, sum[0]);
    if constexpr (kSums == 2) sum[1] = hn::Add(sum[1], difference);
  });
}

// The sum of squares of a row; read(first column, columns) gives a chunk of it.
template <class Read>
HWY_INLINE float square_sum(std::size_t columns, const Read& read) {
  return sums_of_row<1>(columns, [&](std::size_t first, std::size_t count, auto& lanes) {
    add_deviations(read(first, count), count, 0, lanes);
  })[0];
}

// The sums of a row around its center; kChunk as in sums_of_row().
template <std::size_t kChunk = convert_chunk, class Read>
HWY_INLINE CenteredSums centered_sums(std::size_t columns, const Read& read) {
  const auto number = static_cast<float>(columns);
  CenteredSums sums;
  sums.center = sums_of_row<1, kChunk>(columns,
                                       [&](std::size_t first, std::size_t count, auto& lanes) {
                                         add_run(read(first, count), count, lanes);
                                       })[0] /
                number;
  for (bool again = false;; again = true) {
    const auto around =
        sums_of_row<2, kChunk>(columns, [&](std::size_t first, std::size_t count, auto& lanes) {
          add_deviations(read(first, count), count, sums.center, lanes);
        });
    sums.square = around[0], sums.rest = around[1];
    if (again || !center_is_off(sums.rest / number, sums.square / number)) return sums;
    sums.center += sums.rest / number;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
