// silu(a) b of rows that hold a and b side by side, and its gradient: the sigmoid is computed once
// for both halves.

#if defined(SOMA_KERNELS_ELEMENT_GATED_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ELEMENT_GATED_INL_HPP
#undef SOMA_KERNELS_ELEMENT_GATED_INL_HPP
#else
#define SOMA_KERNELS_ELEMENT_GATED_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/element/args.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>
#include <soma/kernels/rows/run_parts-inl.hpp>
#include <soma/simd/math-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_NOINLINE HWY_MAYBE_UNUSED static void gated_run(const float* a, const float* b,
                                                    std::size_t count, float* y) {
  for_run_parts(count, [&](const RunPart& part) HWY_ATTR {
    part.write(hn::Mul(silu_lanes(Floats(), part(a)), part(b)), y);
  });
}

// da = dy b silu'(a), db = dy silu(a). As silu_derivative_lanes() and silu_lanes(), of one sigmoid.
HWY_NOINLINE HWY_MAYBE_UNUSED static void gated_gradient_run(const float* a, const float* b,
                                                             const float* dy, std::size_t count,
                                                             float* da, float* db) {
  const Floats d;
  for_run_parts(count, [&](const RunPart& part) HWY_ATTR {
    const FloatVector x = part(a), given = part(dy);
    const FloatVector y = clamp_lanes(d, x, -110.0f, 110.0f);  // no infinity times zero
    const LogisticParts<Floats> parts(d, y);
    const auto is_below = hn::Lt(y, hn::Zero(d));
    const FloatVector u = hn::Abs(y), s = parts.upper, e = parts.little;
    const FloatVector distant = hn::Mul(s, e);
    const FloatVector positive = fused(d, hn::Mul(u, e), hn::Mul(s, s), s);
    const FloatVector negative = hn::Mul(distant, fused(d, hn::Neg(u), s, hn::Set(d, 1.0f)));
    const FloatVector slope = hn::IfThenElse(is_below, negative, positive);
    const FloatVector value =
        hn::Mul(at_least_lanes(d, x, -110.0f), hn::IfThenElse(is_below, distant, s));
    part.write(hn::Mul(hn::Mul(given, part(b)), slope), da);
    part.write(hn::Mul(given, value), db);
  });
}

static inline void gated_kernel(const GatedArgs& args) noexcept {
  const MatrixReader x(args.x);
  MatrixWriter y(args.y);
  ChunkBuffer in_a, in_b;
  for (std::size_t row = 0; row < args.rows; ++row)
    for_each_chunk(args.columns, [&](std::size_t first, std::size_t count) {
      gated_run(x.read(row, first, count, in_a.values),
                x.read(row, args.columns + first, count, in_b.values), count, y.place(row, first));
      y.finish(row, first, count);
    });
}

static inline void gated_backward_kernel(const GatedArgs& args) noexcept {
  const MatrixReader x(args.x), dy(args.dy);
  MatrixWriter da(args.dx), db(args.dx);
  ChunkBuffer in_a, in_b, in_dy;
  for (std::size_t row = 0; row < args.rows; ++row)
    for_each_chunk(args.columns, [&](std::size_t first, std::size_t count) {
      const std::size_t other = args.columns + first;
      gated_gradient_run(x.read(row, first, count, in_a.values),
                         x.read(row, other, count, in_b.values),
                         dy.read(row, first, count, in_dy.values), count, da.place(row, first),
                         db.place(row, other));
      da.finish(row, first, count);
      db.finish(row, other, count);
    });
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
