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
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The sums of x - mean and of its square.
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_channel_deviations(const float* x, std::size_t count,
                                                                 float mean, LaneSums<2>& sums) {
  const FloatVector center = hn::Set(Floats(), mean);
  accumulate<2, 1>({x}, count, sums, [&](FloatVector* sum, FloatVector v) HWY_ATTR {
    const FloatVector d = hn::Sub(v, center);
    sum[0] = hn::Add(sum[0], d);
    sum[1] = fused(Floats(), d, d, sum[1]);
  });
}

// A first mean m, then with the sums d of x - m and q of its squares: mean = m + d / n, and the
// squares of the deviations from it are q - d^2 / n.
static inline void channel_moments_kernel(const ChannelArgs& args) noexcept {
  const auto count = static_cast<float>(args.columns);
  for (std::size_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.columns;
    LaneSums<1> whole;
    add_run(x, args.columns, whole);
    const float first = whole.total() / count;
    LaneSums<2> rest;
    add_channel_deviations(x, args.columns, first, rest);
    const float d = rest.total(0), step = d / count;
    args.sums[row] = first + step;
    const Floats tag;
    const float squares =
        hn::GetLane(fused(tag, hn::Set(tag, -d), hn::Set(tag, step), hn::Set(tag, rest.total(1))));
    args.squares[row] = squares < 0 ? 0 : squares;  // NaN stays
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
    LaneSums<2> sums;
    add_channel_gradients(args.x + row * args.columns, args.dy + row * args.columns, args.columns,
                          args.mean[c], args.rstd[c], sums);
    args.sums[row] = sums.total(0);
    args.squares[row] = sums.total(1);
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
