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
#include <soma/kernels/norm/channels-inl.hpp>
#include <soma/kernels/norm/moments-inl.hpp>
#include <soma/kernels/norm/softmax-inl.hpp>
#include <soma/kernels/reduce/segment_tree-inl.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>
#include <soma/kernels/rows/row_sums-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {  // internal linkage: units with other flags have their own

// Stand-ins for absent gamma and beta.
struct NormConstants {
  alignas(64) float ones[row_chunk], zeros[row_chunk] = {};
  NormConstants() { std::fill_n(ones, row_chunk, 1.0f); }
};

// x of a row, reduced.
struct RowMoments {
  float mean = 0, rstd = 0;
};

}  // namespace

static inline RowMoments row_moments(CachedRow& x, const NormArgs& args) {
  const auto columns = static_cast<float>(args.columns);
  const auto read = [&](std::size_t first, std::size_t count) { return x.read(first, count); };
  if (args.rms) return {0, rstd_of(square_sum(args.columns, read) / columns, args.epsilon)};
  const CenteredSums sums = centered_sums(args.columns, read);
  const float rest = sums.rest / columns;
  return {sums.center + rest, rstd_of(variance_of(rest, sums.square / columns), args.epsilon)};
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

// dx of a vector; offset and slope are the means of g and of g * xhat, negated.
HWY_INLINE FloatVector norm_gradient_lanes(FloatVector xhat, FloatVector dy, FloatVector gamma,
                                           FloatVector rstd, FloatVector offset,
                                           FloatVector slope) {
  // g is rounded before its mean is subtracted: in a row of one column they are then equal. The
  // addition of 0 keeps compilers from rounding product and difference as one.
  const FloatVector g = fused(Floats(), dy, gamma, hn::Zero(Floats()));
  return hn::Mul(rstd, fused(Floats(), xhat, slope, hn::Add(g, offset)));
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
    return norm_gradient_lanes(xhat, dy, gamma, rstd, offset, slope);
  });
}

// The same, and sums[0] += dy * xhat, sums[1] += dy, column by column; whole vectors of sums.
HWY_NOINLINE HWY_MAYBE_UNUSED static void norm_gradient_sums_run(
    const std::array<const float*, 3>& in, std::size_t count, const RowMoments& moments,
    float mean_g, float mean_g_xhat, float* out, const std::array<float*, 2>& sums) {
  const Floats d;
  const FloatVector mean = hn::Set(d, moments.mean), rstd = hn::Set(d, moments.rstd);
  const FloatVector offset = hn::Set(d, -mean_g), slope = hn::Set(d, -mean_g_xhat);
  const auto vector = [&](const float* x_at, const float* dy_at, const float* gamma_at,
                          std::size_t i) HWY_ATTR {
    const FloatVector xhat = hn::Mul(hn::Sub(hn::LoadU(d, x_at), mean), rstd);
    const FloatVector dy = hn::LoadU(d, dy_at);
    hn::Store(fused(d, dy, xhat, hn::Load(d, sums[0] + i)), d, sums[0] + i);
    hn::Store(hn::Add(hn::Load(d, sums[1] + i), dy), d, sums[1] + i);
    return norm_gradient_lanes(xhat, dy, hn::LoadU(d, gamma_at), rstd, offset, slope);
  };
  const std::size_t rest = count % float_lanes, whole = count - rest;
  for (std::size_t i = 0; i < whole; i += float_lanes)
    hn::StoreU(vector(in[0] + i, in[1] + i, in[2] + i, i), d, out + i);
  if (rest == 0) return;
  const Tails<3> tails(in, whole, rest);
  alignas(64) float last[sum_lanes];
  hn::Store(vector(tails.values[0], tails.values[1], tails.values[2], whole), d, last);
  std::memcpy(out + whole, last, rest * sizeof(float));
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
    const auto sums =
        sums_of_row<2>(args.columns, [&](std::size_t first, std::size_t count, auto& lanes) {
          add_norm_gradients(inputs(first, count), count, moments, lanes);
        });
    const float mean_g = args.rms ? 0 : sums[0] / columns;
    const float mean_g_xhat = sums[1] / columns;
    for_each_chunk(args.columns, [&](std::size_t first, std::size_t count) {
      float* const out = writer.place(row, first);
      if (args.gamma_sums != nullptr)
        norm_gradient_sums_run(inputs(first, count), count, moments, mean_g, mean_g_xhat, out,
                               {args.gamma_sums + first, args.beta_sums + first});
      else
        norm_gradient_run(inputs(first, count), count, moments, mean_g, mean_g_xhat, out);
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

static constexpr NormKernels norm_kernels{
    norm_forward_kernel,    norm_backward_kernel,    norm_backward_parameters_kernel,
    softmax_kernel,         softmax_backward_kernel, channel_moments_kernel,
    channel_forward_kernel, channel_sums_kernel,     channel_backward_kernel};

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
