// The norm family of the kernel table: layer norm, RMS norm and softmax, a row at a time in chunks.
// A row of plain fp32 is passed over where it lies (it stays in the first-level cache), any other
// is decoded once if it is short.

#if defined(SOMA_KERNELS_NORM_NORM_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_NORM_NORM_INL_HPP
#undef SOMA_KERNELS_NORM_NORM_INL_HPP
#else
#define SOMA_KERNELS_NORM_NORM_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/norm/args.hpp>
#include <soma/kernels/norm/softmax-inl.hpp>
#include <soma/kernels/reduce/segment_tree-inl.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {  // internal linkage: units with other flags have their own

// What stands for gamma and beta where they are absent.
struct NormConstants {
  alignas(64) float ones[row_chunk], zeros[row_chunk] = {};
  NormConstants() { std::fill_n(ones, row_chunk, 1.0f); }
};

// x of a row, reduced.
struct RowMoments {
  float mean = 0, rstd = 0;
};

}  // namespace

HWY_NOINLINE HWY_MAYBE_UNUSED static void add_squared_differences(const float* x, std::size_t count,
                                                                  float mean, LaneSums<1>& sums) {
  const FloatVector center = hn::Set(Floats(), mean);
  accumulate<1, 1>({x}, count, sums, [&](FloatVector* sum, FloatVector v) HWY_ATTR {
    const FloatVector difference = hn::Sub(v, center);
    sum[0] = fused(Floats(), difference, difference, sum[0]);
  });
}

static inline RowMoments row_moments(CachedRow& x, const NormArgs& args) {
  const auto columns = static_cast<float>(args.columns);
  RowMoments moments;
  if (!args.rms) {
    LaneSums<1> sum;
    for_each_chunk(args.columns, [&](std::size_t first, std::size_t count) {
      add_run(x.read(first, count), count, sum);
    });
    moments.mean = sum.total() / columns;
  }
  LaneSums<1> squares;
  for_each_chunk(args.columns, [&](std::size_t first, std::size_t count) {
    add_squared_differences(x.read(first, count), count, moments.mean, squares);
  });
  // A sum that is above all numbers says nothing of the row: without this it would end as zeros.
  const float sum = squares.total();
  moments.rstd = std::isinf(sum) ? std::numeric_limits<float>::quiet_NaN()
                                 : 1 / std::sqrt(sum / columns + args.epsilon);
  return moments;
}

// (x - mean) * rstd * gamma + beta, the last two steps rounded as one.
HWY_NOINLINE HWY_MAYBE_UNUSED static void normalise_run(const std::array<const float*, 3>& in,
                                                        std::size_t count,
                                                        const RowMoments& moments, float* out) {
  const FloatVector mean = hn::Set(Floats(), moments.mean), rstd = hn::Set(Floats(), moments.rstd);
  map_vectors<3>(in, out, count, [&](FloatVector x, FloatVector gamma, FloatVector beta) HWY_ATTR {
    return fused(Floats(), hn::Mul(hn::Sub(x, mean), rstd), gamma, beta);
  });
}

static inline void norm_forward_kernel(const NormArgs& args) noexcept {
  const NormConstants constants;
  CachedRow x(args.x, args.columns);
  MatrixWriter writer(args.y);
  for (std::size_t row = 0; row < args.rows; ++row) {
    x.start(row);
    const RowMoments moments = row_moments(x, args);
    if (args.mean != nullptr) args.mean[row] = moments.mean;
    if (args.rstd != nullptr) args.rstd[row] = moments.rstd;
    for_each_chunk(args.columns, [&](std::size_t first, std::size_t count) {
      const float* gamma = args.gamma != nullptr ? args.gamma + first : constants.ones;
      const float* beta = args.beta != nullptr ? args.beta + first : constants.zeros;
      normalise_run({x.read(first, count), gamma, beta}, count, moments, writer.place(row, first));
      writer.finish(row, first, count);
    });
  }
}

// ---- backward: with xhat = (x - mean) * rstd and g = dy * gamma,
//     dx = rstd * (g - mean of g - xhat * mean of g * xhat)
// and without the mean of g for RMS norm. Inputs in this order: x, dy, gamma.

// Adds to the sums of g and of g * xhat.
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_norm_gradients(const std::array<const float*, 3>& in,
                                                             std::size_t count,
                                                             const RowMoments& moments,
                                                             LaneSums<2>& sums) {
  const FloatVector mean = hn::Set(Floats(), moments.mean), rstd = hn::Set(Floats(), moments.rstd);
  accumulate<2, 3, from_memory>(
      in, count, sums,
      [&](FloatVector* sum, FloatVector x, FloatVector dy, FloatVector gamma) HWY_ATTR {
        const FloatVector xhat = hn::Mul(hn::Sub(x, mean), rstd);
        sum[0] = fused(Floats(), dy, gamma, sum[0]);
        sum[1] = fused(Floats(), hn::Mul(dy, gamma), xhat, sum[1]);
      });
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void norm_gradient_run(const std::array<const float*, 3>& in,
                                                            std::size_t count,
                                                            const RowMoments& moments, float mean_g,
                                                            float mean_g_xhat, float* out) {
  const Floats d;
  const FloatVector mean = hn::Set(d, moments.mean), rstd = hn::Set(d, moments.rstd);
  const FloatVector offset = hn::Set(d, -mean_g), slope = hn::Set(d, -mean_g_xhat);
  map_vectors<3>(in, out, count, [&](FloatVector x, FloatVector dy, FloatVector gamma) HWY_ATTR {
    const FloatVector xhat = hn::Mul(hn::Sub(x, mean), rstd);
    const FloatVector centered = fused(Floats(), dy, gamma, offset);
    return hn::Mul(rstd, fused(Floats(), xhat, slope, centered));
  });
}

static inline void norm_backward_kernel(const NormArgs& args) noexcept {
  const NormConstants constants;
  CachedRow x(args.x, args.columns), dy(args.dy, args.columns);
  MatrixWriter writer(args.dx);
  const auto columns = static_cast<float>(args.columns);
  for (std::size_t row = 0; row < args.rows; ++row) {
    x.start(row);
    dy.start(row);
    const RowMoments moments{args.mean != nullptr && !args.rms ? args.mean[row] : 0,
                             args.rstd[row]};
    const auto inputs = [&](std::size_t first, std::size_t count) {
      return std::array<const float*, 3>{
          x.read(first, count), dy.read(first, count),
          args.gamma != nullptr ? args.gamma + first : constants.ones};
    };
    LaneSums<2> sums;
    for_each_chunk(args.columns, [&](std::size_t first, std::size_t count) {
      add_norm_gradients(inputs(first, count), count, moments, sums);
    });
    const float mean_g = args.rms ? 0 : sums.total(0) / columns;
    const float mean_g_xhat = sums.total(1) / columns;
    for_each_chunk(args.columns, [&](std::size_t first, std::size_t count) {
      norm_gradient_run(inputs(first, count), count, moments, mean_g, mean_g_xhat,
                        writer.place(row, first));
      writer.finish(row, first, count);
    });
  }
}

// sums[0] += dy * xhat and sums[1] += dy, column by column; whole vectors.
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_parameter_gradients(const float* x, const float* dy,
                                                                  std::size_t count,
                                                                  const RowMoments& moments,
                                                                  float* gamma, float* beta) {
  const Floats d;
  const FloatVector mean = hn::Set(d, moments.mean), rstd = hn::Set(d, moments.rstd);
  for (std::size_t i = 0; i < count; i += float_lanes) {
    const FloatVector xhat = hn::Mul(hn::Sub(hn::LoadU(d, x + i), mean), rstd);
    const FloatVector g = hn::LoadU(d, dy + i);
    hn::Store(fused(d, g, xhat, hn::Load(d, gamma + i)), d, gamma + i);
    hn::Store(hn::Add(hn::Load(d, beta + i), g), d, beta + i);
  }
}

// A row of x and dy adds to one piece of columns. A partial vector goes through copies.
static inline void add_parameter_row(const float* x, const float* dy, std::size_t count,
                                     const RowMoments& moments, float* gamma, float* beta) {
  const std::size_t rest = count % float_lanes, whole = count - rest;
  add_parameter_gradients(x, dy, whole, moments, gamma, beta);
  if (rest == 0) return;
  const Tails<2> tails({x, dy}, whole, rest);
  add_parameter_gradients(tails.values[0], tails.values[1], rest, moments, gamma + whole,
                          beta + whole);
}

static inline void norm_backward_parameters_kernel(const NormArgs& args) noexcept {
  constexpr std::size_t piece = 128;  // columns; dgamma's sums, then dbeta's
  SegmentTree<2 * piece> tree;
  ChunkBuffer buffers[2];
  const MatrixReader x(args.x), dy(args.dy);
  const std::size_t end = args.first_column + args.column_count;
  for (std::size_t column = args.first_column; column < end; column += piece) {
    const std::size_t count = (std::min)(piece, end - column);
    const float* sums =
        tree.sum(args.segments, args.rows, [&](std::size_t begin, std::size_t stop, float* sum) {
          for (std::size_t row = begin; row < stop; ++row) {
            const RowMoments moments{args.mean != nullptr && !args.rms ? args.mean[row] : 0,
                                     args.rstd[row]};
            add_parameter_row(x.read(row, column, count, buffers[0].values),
                              dy.read(row, column, count, buffers[1].values), count, moments, sum,
                              sum + piece);
          }
        });
    if (args.dgamma != nullptr) std::copy_n(sums, count, args.dgamma + column);
    if (args.dbeta != nullptr) std::copy_n(sums + piece, count, args.dbeta + column);
  }
}

static constexpr NormKernels norm_kernels{norm_forward_kernel, norm_backward_kernel,
                                          norm_backward_parameters_kernel, softmax_kernel,
                                          softmax_backward_kernel};

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
