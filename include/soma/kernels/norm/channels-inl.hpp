// Norms of channels: rows of planes [N * C, H W], whose channels share statistics over a batch.
// Each entry works on rows by themselves; what belongs to a channel is added up by the caller.

#if defined(SOMA_KERNELS_NORM_CHANNELS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_NORM_CHANNELS_INL_HPP
#undef SOMA_KERNELS_NORM_CHANNELS_INL_HPP
#else
#define SOMA_KERNELS_NORM_CHANNELS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/norm/args.hpp>
#include <soma/kernels/norm/moments-inl.hpp>
#include <soma/kernels/rows/row_sums-inl.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static inline void channel_moments_kernel(const ChannelArgs& args) noexcept {
  for (std::size_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.columns;
    const CenteredSums sums = centered_sums<row_run>(
        args.columns, [x](std::size_t first, std::size_t) { return x + first; });
    args.centers[row] = sums.center;
    args.sums[row] = sums.rest;
    args.squares[row] = sums.square;
  }
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void channel_forward_run(const float* x, std::size_t count,
                                                              float mean, float scale, float shift,
                                                              float* out) {
  const Floats d;
  const FloatVector center = hn::Set(d, mean), by = hn::Set(d, scale), plus = hn::Set(d, shift);
  map_vectors<1>({x}, out, count, [&](FloatVector v) HWY_ATTR {
    return fused(Floats(), hn::Sub(v, center), by, plus);
  });
}

// y = (x - mean) * scale + shift.
static inline void channel_forward_kernel(const ChannelArgs& args) noexcept {
  for (std::size_t row = 0; row < args.rows; ++row) {
    const std::size_t c = (args.first_row + row) % args.channels;
    channel_forward_run(args.x + row * args.columns, args.columns, args.mean[c], args.scale[c],
                        args.shift[c], args.y + row * args.columns);
  }
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void add_channel_gradients(const float* x, const float* dy,
                                                                std::size_t count, float mean,
                                                                float rstd, LaneSums<2>& sums) {
  const Floats d;
  const FloatVector center = hn::Set(d, mean), by = hn::Set(d, rstd);
  accumulate<2, 2, from_memory>(
      {x, dy}, count, sums, [&](FloatVector* sum, FloatVector v, FloatVector g) HWY_ATTR {
        sum[0] = hn::Add(sum[0], g);
        sum[1] = fused(Floats(), g, hn::Mul(hn::Sub(v, center), by), sum[1]);
      });
}

// The sums of dy and of dy * xhat, xhat = (x - mean) * rstd.
static inline void channel_sums_kernel(const ChannelArgs& args) noexcept {
  for (std::size_t row = 0; row < args.rows; ++row) {
    const std::size_t c = (args.first_row + row) % args.channels;
    const float *x = args.x + row * args.columns, *dy = args.dy + row * args.columns;
    const auto sums = sums_of_row<2, row_run>(
        args.columns, [&](std::size_t first, std::size_t count, auto& lanes) {
          add_channel_gradients(x + first, dy + first, count, args.mean[c], args.rstd[c], lanes);
        });
    args.sums[row] = sums[0];
    args.squares[row] = sums[1];
  }
}

struct ChannelFactors {
  float mean, rstd, scale, mean_dy, mean_dy_xhat;
};
HWY_NOINLINE HWY_MAYBE_UNUSED static void channel_backward_run(const float* x, const float* dy,
                                                               std::size_t count,
                                                               const ChannelFactors& by,
                                                               float* out) {
  const Floats d;
  const FloatVector center = hn::Set(d, by.mean), rstd = hn::Set(d, by.rstd);
  const FloatVector scale = hn::Set(d, by.scale), offset = hn::Set(d, by.mean_dy);
  const FloatVector slope = hn::Set(d, -by.mean_dy_xhat);
  map_vectors<2>({x, dy}, out, count, [&](FloatVector v, FloatVector g) HWY_ATTR {
    const FloatVector xhat = hn::Mul(hn::Sub(v, center), rstd);
    return hn::Mul(scale, fused(Floats(), xhat, slope, hn::Sub(g, offset)));
  });
}

// dx = scale * (dy - mean_dy - xhat * mean_dy_xhat).
static inline void channel_backward_kernel(const ChannelArgs& args) noexcept {
  for (std::size_t row = 0; row < args.rows; ++row) {
    const std::size_t c = (args.first_row + row) % args.channels;
    channel_backward_run(
        args.x + row * args.columns, args.dy + row * args.columns, args.columns,
        {args.mean[c], args.rstd[c], args.scale[c], args.mean_dy[c], args.mean_dy_xhat[c]},
        args.y + row * args.columns);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
