// Softmax over rows, forward and backward, and what cross-entropy shares with it.

#if defined(SOMA_KERNELS_NORM_SOFTMAX_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_NORM_SOFTMAX_INL_HPP
#undef SOMA_KERNELS_NORM_SOFTMAX_INL_HPP
#else
#define SOMA_KERNELS_NORM_SOFTMAX_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/norm/args.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>
#include <soma/kernels/rows/row_sums-inl.hpp>
#include <soma/simd/math-inl.hpp>

#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static inline float largest_of_row(CachedRow& x, std::size_t columns) {
  LaneSums<1> largest(-std::numeric_limits<float>::infinity());
  for_each_chunk(columns, [&](std::size_t first, std::size_t count) {
    largest_of_run(x.read(first, count), count, largest);
  });
  return largest.meet(0, [](float a, float b) { return a < b ? b : a; });
}

// Adds exp(x - largest).
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_exponentials(const float* x, std::size_t count,
                                                           float largest, LaneSums<1>& sums) {
  const FloatVector shift = hn::Set(Floats(), largest);
  accumulate<1, 1>({x}, count, sums, [&](FloatVector* sum, FloatVector v) HWY_ATTR {
    sum[0] = hn::Add(sum[0], exp_lanes(Floats(), hn::Sub(v, shift)));
  });
}

// The same, kept in `out`.
HWY_NOINLINE HWY_MAYBE_UNUSED static void write_exponentials(const float* x, std::size_t count,
                                                             float largest, float* out,
                                                             LaneSums<1>& sums) {
  const FloatVector shift = hn::Set(Floats(), largest);
  accumulate_and_write<1, 1>({x}, out, count, sums, [&](FloatVector* sum, FloatVector v) HWY_ATTR {
    const FloatVector e = exp_lanes(Floats(), hn::Sub(v, shift));
    sum[0] = hn::Add(sum[0], e);
    return e;
  });
}

static inline float log_of(float x) {
  return hn::GetLane(log_lanes(Floats(), hn::Set(Floats(), x)));
}

// Adds exp(x - largest) of the numbers below the largest to the first sum, and counts the others in
// the second: the logarithm of both keeps digits that 1 + a small sum would lose.
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_exponentials_apart(const float* x, std::size_t count,
                                                                 float largest, LaneSums<2>& sums) {
  const FloatVector shift = hn::Set(Floats(), largest);
  accumulate<2, 1>({x}, count, sums, [&](FloatVector* sum, FloatVector v) HWY_ATTR {
    const Floats d;
    const auto is_largest = hn::Eq(v, shift);
    const FloatVector e = exp_lanes(d, hn::Sub(v, shift));
    sum[0] = hn::Add(sum[0], hn::IfThenZeroElse(is_largest, e));
    sum[1] = hn::Add(sum[1], hn::IfThenElseZero(is_largest, hn::Set(d, 1.0f)));
  });
}

// Those two sums over a row.
static inline std::array<float, 2> sums_below(CachedRow& x, std::size_t columns, float largest) {
  return sums_of_row<2>(columns, [&](std::size_t first, std::size_t count, auto& lanes) {
    add_exponentials_apart(x.read(first, count), count, largest, lanes);
  });
}

// log sum exp(x - largest) of a row, from those sums: log(1 + others), where others are the small
// sum and all but one of the largest. NaN where the largest is infinite.
static inline float log_sum_below(float largest, const std::array<float, 2>& sums) {
  if (std::isinf(largest)) return std::numeric_limits<float>::quiet_NaN();
  const Floats d;
  const float others = (sums[1] - 1) + sums[0];
  return hn::GetLane(others <= 1 ? log_one_plus_lanes(d, hn::Set(d, others))
                                 : log_lanes(d, hn::Set(d, 1 + others)));
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void scale_run(const float* x, std::size_t count, float factor,
                                                    float* out) {
  const FloatVector scale = hn::Set(Floats(), factor);
  map_vectors<1>({x}, out, count, [&](FloatVector v) HWY_ATTR { return hn::Mul(v, scale); });
}

// exp(x - largest) * factor: what write_exponentials and scale_run give.
HWY_NOINLINE HWY_MAYBE_UNUSED static void exponential_run(const float* x, std::size_t count,
                                                          float largest, float factor, float* out) {
  const FloatVector shift = hn::Set(Floats(), largest), scale = hn::Set(Floats(), factor);
  map_vectors<1>({x}, out, count, [&](FloatVector v) HWY_ATTR {
    return hn::Mul(exp_lanes(Floats(), hn::Sub(v, shift)), scale);
  });
}

// (x - largest) - logarithm of the sum of exponentials
HWY_NOINLINE HWY_MAYBE_UNUSED static void log_softmax_run(const float* x, std::size_t count,
                                                          float largest, float logarithm,
                                                          float* out) {
  const FloatVector shift = hn::Set(Floats(), largest), rest = hn::Set(Floats(), logarithm);
  map_vectors<1>({x}, out, count,
                 [&](FloatVector v) HWY_ATTR { return hn::Sub(hn::Sub(v, shift), rest); });
}

static inline void softmax_kernel(const SoftmaxArgs& args) noexcept {
  CachedRow x(args.x, args.columns);
  MatrixWriter writer(args.y);
  // A plain target holds the exponentials until their sum is known; for another they are computed
  // twice.
  const bool keep = writer.direct() && !args.logarithm;
  for (std::size_t row = 0; row < args.rows; ++row) {
    x.start(row);
    const float largest = largest_of_row(x, args.columns);
    float inverse = 0, logarithm = 0;
    if (args.logarithm)
      logarithm = log_sum_below(largest, sums_below(x, args.columns, largest));
    else
      inverse =
          1 / sums_of_row<1>(args.columns, [&](std::size_t first, std::size_t count, auto& lanes) {
            const float* from = x.read(first, count);
            if (keep)
              write_exponentials(from, count, largest, writer.place(row, first), lanes);
            else
              add_exponentials(from, count, largest, lanes);
          })[0];
    for_each_chunk(args.columns, [&](std::size_t first, std::size_t count) {
      float* to = writer.place(row, first);
      if (keep)
        scale_run(to, count, inverse, to);
      else if (args.logarithm)
        log_softmax_run(x.read(first, count), count, largest, logarithm, to);
      else
        exponential_run(x.read(first, count), count, largest, inverse, to);
      writer.finish(row, first, count);
    });
  }
}

// ---- backward

HWY_NOINLINE HWY_MAYBE_UNUSED static void add_products(const float* a, const float* b,
                                                       std::size_t count, LaneSums<1>& sums) {
  accumulate<1, 2>({a, b}, count, sums,
                   [](FloatVector* sum, FloatVector v, FloatVector w)
                       HWY_ATTR { sum[0] = fused(Floats(), v, w, sum[0]); });
}

// y * (dy - sum of y * dy)
HWY_NOINLINE HWY_MAYBE_UNUSED static void softmax_gradient_run(const float* y, const float* dy,
                                                               std::size_t count, float sum,
                                                               float* out) {
  const FloatVector offset = hn::Set(Floats(), sum);
  map_vectors<2>({y, dy}, out, count, [&](FloatVector v, FloatVector g) HWY_ATTR {
    return hn::Mul(v, hn::Sub(g, offset));
  });
}

// dy - exp(y) * sum of dy
HWY_NOINLINE HWY_MAYBE_UNUSED static void log_softmax_gradient_run(const float* y, const float* dy,
                                                                   std::size_t count, float sum,
                                                                   float* out) {
  const FloatVector slope = hn::Set(Floats(), -sum);
  map_vectors<2>({y, dy}, out, count, [&](FloatVector v, FloatVector g) HWY_ATTR {
    return fused(Floats(), exp_lanes(Floats(), v), slope, g);
  });
}

static inline void softmax_backward_kernel(const SoftmaxArgs& args) noexcept {
  CachedRow y(args.y_in, args.columns), dy(args.dy, args.columns);
  MatrixWriter writer(args.dx);
  for (std::size_t row = 0; row < args.rows; ++row) {
    y.start(row);
    dy.start(row);
    const float sum =
        sums_of_row<1>(args.columns, [&](std::size_t first, std::size_t count, auto& lanes) {
          if (args.logarithm)
            add_run(dy.read(first, count), count, lanes);
          else
            add_products(y.read(first, count), dy.read(first, count), count, lanes);
        })[0];
    for_each_chunk(args.columns, [&](std::size_t first, std::size_t count) {
      const auto gradient = args.logarithm ? log_softmax_gradient_run : softmax_gradient_run;
      gradient(y.read(first, count), dy.read(first, count), count, sum, writer.place(row, first));
      writer.finish(row, first, count);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
