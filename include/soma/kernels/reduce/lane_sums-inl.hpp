// Sums of squares in double, in 16 logical lanes: lane i adds elements i, i + 16, ... in order,
// then lanes are added pairwise. The lanes are stored in memory between chunks, so a sum depends
// neither on the width of the vectors nor on how a run is cut into chunks (which begin at multiples
// of 16).

#if defined(SOMA_KERNELS_REDUCE_LANE_SUMS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_REDUCE_LANE_SUMS_INL_HPP
#undef SOMA_KERNELS_REDUCE_LANE_SUMS_INL_HPP
#else
#define SOMA_KERNELS_REDUCE_LANE_SUMS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t logical_lanes = 16;

template <class T>
struct SixteenLanes {
  alignas(128) T lane[logical_lanes] = {};
};

// Adds lane i to i + 8, then to + 4, + 2, + 1.
template <class T>
static inline T total(const SixteenLanes<T>& sums) {
  T left[logical_lanes / 2];
  for (std::size_t i = 0; i < 8; ++i) left[i] = sums.lane[i] + sums.lane[i + 8];
  for (std::size_t half = 4; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) left[i] += left[i + half];
  return left[0];
}

// `count` is a multiple of 16; callers pad with zeros, which change no lane. Vectors narrower than
// 16 lanes pass over the chunk once for each part of the lanes: the chunk is in the first-level
// cache, and the passes are independent, so they overlap. The square of an fp32 number is exact in
// double (48 bits, exponents from -298 to 255), so whether product and sum are fused changes no bit
// and every target, with or without fused multiply-add, agrees. Targets without vectors of double
// add one element after the other.
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_squares(const float* values, std::size_t count,
                                                      SixteenLanes<double>& sums) {
#if HWY_HAVE_FLOAT64
  const hn::CappedTag<double, logical_lanes / 2> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t part = 0; part < logical_lanes; part += 2 * lanes) {
    auto sum_0 = hn::Load(d, sums.lane + part), sum_1 = hn::Load(d, sums.lane + part + lanes);
    for (std::size_t i = part; i < count; i += logical_lanes) {
      fetch_ahead(values + i);
      const auto x_0 = hn::PromoteTo(d, load_bytes(narrow, values + i));
      const auto x_1 = hn::PromoteTo(d, load_bytes(narrow, values + i + lanes));
      sum_0 = hn::MulAdd(x_0, x_0, sum_0);
      sum_1 = hn::MulAdd(x_1, x_1, sum_1);
    }
    hn::Store(sum_0, d, sums.lane + part);
    hn::Store(sum_1, d, sums.lane + part + lanes);
  }
#else
  for (std::size_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(values[i]);
    sums.lane[i % logical_lanes] += x * x;
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
