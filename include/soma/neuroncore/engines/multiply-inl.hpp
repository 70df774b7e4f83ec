// The 128 x 128 array on a CPU: a block of sums stays in registers while k passes by.

#if defined(SOMA_NEURONCORE_ENGINES_MULTIPLY_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_NEURONCORE_ENGINES_MULTIPLY_INL_HPP
#undef SOMA_NEURONCORE_ENGINES_MULTIPLY_INL_HPP
#else
#define SOMA_NEURONCORE_ENGINES_MULTIPLY_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/neuroncore/engines/engine_kernels.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ArrayLanes = hn::CappedTag<float, 16>;

// Six rows by two vectors: 12 accumulators, two vectors of b and one element of a fit the 16
// registers of the smallest target that has the instruction.
inline constexpr std::size_t array_rows = 6;

// A row of sums for each number in the sequence, over all columns.
template <std::size_t... row>
HWY_INLINE void multiply_rows(std::index_sequence<row...>, const neuroncore::MultiplyArgs& args) {
  const ArrayLanes d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t n = 0; n < args.n; n += 2 * lanes) {
    using V = hn::Vec<ArrayLanes>;
    V left[sizeof...(row)] = {((void)row, hn::Zero(d))...};
    V right[sizeof...(row)] = {((void)row, hn::Zero(d))...};
    const float *a = args.a, *b = args.b + n;
    for (std::size_t k = 0; k < args.k; ++k) {
      const V b0 = hn::Load(d, b), b1 = hn::Load(d, b + lanes);
      ((left[row] = fused(d, hn::Set(d, a[row]), b0, left[row]),
        right[row] = fused(d, hn::Set(d, a[row]), b1, right[row])),
       ...);
      a += args.a_stride;
      b += args.b_stride;
    }
    ((hn::Store(left[row], d, args.sums + row * args.sums_stride + n),
      hn::Store(right[row], d, args.sums + row * args.sums_stride + n + lanes)),
     ...);
  }
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void array_multiply(
    const neuroncore::MultiplyArgs& args) noexcept {
  neuroncore::MultiplyArgs part = args;
  for (std::size_t m = 0; m < args.m; m += array_rows) {
    part.a = args.a + m;
    part.sums = args.sums + m * args.sums_stride;
    if (args.m - m >= array_rows) {
      multiply_rows(std::make_index_sequence<array_rows>(), part);
      continue;
    }
    for (std::size_t rest = m; rest < args.m; ++rest) {
      multiply_rows(std::make_index_sequence<1>(), part);
      ++part.a;
      part.sums += args.sums_stride;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
