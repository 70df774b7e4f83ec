// The loss family of the kernel table.

#if defined(SOMA_KERNELS_LOSS_LOSS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_LOSS_LOSS_INL_HPP
#undef SOMA_KERNELS_LOSS_LOSS_INL_HPP
#else
#define SOMA_KERNELS_LOSS_LOSS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/loss/args.hpp>
#include <soma/kernels/norm/softmax-inl.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>
#include <soma/kernels/rows/row_sums-inl.hpp>
#include <soma/numeric/fused.hpp>

#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static inline std::int64_t label_of(const CrossEntropyArgs& args, std::size_t row) {
  const auto* labels = static_cast<const std::byte*>(args.labels);
  if (args.label_dtype == DType::int32) {
    std::int32_t label;
    std::memcpy(&label, labels + row * sizeof label, sizeof label);
    return label;
  }
  std::int64_t label;
  std::memcpy(&label, labels + row * sizeof label, sizeof label);
  return label;
}

// x - largest, and 0 for the largest itself, which may be infinite.
HWY_INLINE FloatVector below_largest(FloatVector x, FloatVector largest) {
  return hn::IfThenElse(hn::Eq(x, largest), hn::Zero(Floats()), hn::Sub(x, largest));
}

// Adds x - largest.
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_differences(const float* x, std::size_t count,
                                                          float largest, LaneSums<1>& sums) {
  const FloatVector shift = hn::Set(Floats(), largest);
  accumulate<1, 1>({x}, count, sums, [&](FloatVector* sum, FloatVector v) HWY_ATTR {
    sum[0] = hn::Add(sum[0], below_largest(v, shift));
  });
}

// With one infinite logit the logarithm is 0, because all other exponentials vanish beside it. NaN
// if several logits are infinite, or if all are -infinity.
static inline float log_sum_of(float largest, const std::array<float, 2>& sums) {
  const bool certain = std::isinf(largest) && largest > 0 && sums[1] == 1;
  return certain ? sums[0] : log_sum_below(largest, sums);
}

// All logits are taken relative to the largest logit of the row, and the largest itself is left out
// of the sum of exponentials. So the loss of a row whose label is far ahead keeps all its digits:
// with log_sum = log sum exp(x - largest),
//     lse - x[label] = log_sum - (x[label] - largest), and the same for the mean.
// An infinite logit is a limit: if it is the label's, the loss is 0, otherwise infinite.
static inline float cross_entropy_row(CachedRow& x, const CrossEntropyArgs& args, std::size_t row,
                                      std::size_t label) {
  const float largest = largest_of_row(x, args.columns);
  const float log_sum = log_sum_of(largest, sums_below(x, args.columns, largest));
  args.log_sum_exp[2 * row] = largest;
  args.log_sum_exp[2 * row + 1] = log_sum;
  const float own = x.read(label, 1)[0];
  const float from_label = log_sum - (own == largest ? 0 : own - largest);
  if (args.smoothing == 0) return from_label;
  const float differences =
      sums_of_row<1>(args.columns, [&](std::size_t first, std::size_t count, auto& lanes) {
        add_differences(x.read(first, count), count, largest, lanes);
      })[0];
  const float from_mean = log_sum - differences / static_cast<float>(args.columns);
  const float unsmoothed = 1 - args.smoothing;
  // A share of zero does not multiply an infinity.
  return fused_multiply_add(args.smoothing, from_mean,
                            unsmoothed == 0 ? 0 : unsmoothed * from_label);
}

static inline void cross_entropy_kernel(const CrossEntropyArgs& args) noexcept {
  CachedRow x(args.logits, args.columns);
  for (std::size_t row = 0; row < args.rows; ++row) {
    const std::int64_t label = label_of(args, row);
    args.loss[row] = args.log_sum_exp[2 * row] = args.log_sum_exp[2 * row + 1] = 0;
    if (label == args.ignore_index) continue;
    x.start(row);
    args.loss[row] = cross_entropy_row(x, args, row, static_cast<std::size_t>(label));
  }
}

static inline void class_sums_kernel(const ClassSumArgs& args) noexcept {
  CachedRow x(args.logits, args.columns);
  for (std::size_t row = 0; row < args.rows; ++row) {
    x.start(row);
    const float largest = largest_of_row(x, args.columns);
    const std::array<float, 2> sums = sums_below(x, args.columns, largest);
    float differences = 0;
    if (args.differences)
      differences =
          sums_of_row<1>(args.columns, [&](std::size_t first, std::size_t count, auto& lanes) {
            add_differences(x.read(first, count), count, largest, lanes);
          })[0];
    args.sums[row] = {largest, sums[0], sums[1], differences};
  }
}

// (exp(x - largest - log_sum) - target) * factor, where lse is the largest and the log_sum.
HWY_NOINLINE HWY_MAYBE_UNUSED static void cross_entropy_gradient_run(const float* x,
                                                                     std::size_t count,
                                                                     const float* lse, float target,
                                                                     float factor, float* out) {
  const Floats d;
  const FloatVector largest = hn::Set(d, lse[0]), log_sum = hn::Set(d, lse[1]);
  const FloatVector wanted = hn::Set(d, target), scale = hn::Set(d, factor);
  map_vectors<1>({x}, out, count, [&](FloatVector v) HWY_ATTR {
    const FloatVector probability =
        exp_lanes(Floats(), hn::Sub(below_largest(v, largest), log_sum));
    return hn::Mul(hn::Sub(probability, wanted), scale);
  });
}

// The label's own gradient: (p - (1 - smoothing + others)) * factor. If p is above 0.5, p - 1 is
// computed as exp(-f) - 1 for the label's loss f, which is -2 t / (1 + t) with t = tanh(f / 2): so
// the gradient keeps its digits if p is nearly 1. Error below 5 ulp.
static inline float label_gradient(float own, const float* lse, float smoothing, float others,
                                   float factor) {
  const Floats d;
  const float from_label = lse[1] - (own == lse[0] ? 0 : own - lse[0]);
  if (!(from_label < 0.69f)) {
    float gradient;
    cross_entropy_gradient_run(&own, 1, lse, 1 - smoothing + others, factor, &gradient);
    return gradient;
  }
  const FloatVector t = tanh_lanes(d, hn::Set(d, 0.5f * from_label));
  const FloatVector missing = hn::Div(hn::Add(t, t), hn::Add(hn::Set(d, 1.0f), t));  // 1 - p
  return (smoothing - others - hn::GetLane(missing)) * factor;
}

static inline void cross_entropy_backward_kernel(const CrossEntropyArgs& args) noexcept {
  ChunkBuffer buffer;
  const MatrixReader reader(args.logits);
  MatrixWriter writer(args.dlogits);
  const std::size_t classes = args.classes == 0 ? args.columns : args.classes;
  const float others = args.smoothing / static_cast<float>(classes);
  for (std::size_t row = 0; row < args.rows; ++row) {
    const std::int64_t label = label_of(args, row);
    const bool ignored = label == args.ignore_index;
    const float factor = args.factors != nullptr ? args.factors[row] : args.factor;
    for_each_chunk(args.columns, [&](std::size_t first, std::size_t count) {
      float* to = writer.place(row, first);
      if (ignored) {
        std::memset(to, 0, count * sizeof(float));
      } else {
        const float* const lse = args.log_sum_exp + 2 * row;
        const float* x = reader.read(row, first, count, buffer.values);
        // The gradient may overwrite the logits, so the label's gradient is computed first.
        const std::size_t at = static_cast<std::size_t>(label) - args.first_class - first;
        const float own = at < count ? x[at] : 0;
        cross_entropy_gradient_run(x, count, lse, others, factor, to);
        if (at < count) to[at] = label_gradient(own, lse, args.smoothing, others, factor);
      }
      writer.finish(row, first, count);
    });
  }
}

// ---- losses of single elements

HWY_NOINLINE HWY_MAYBE_UNUSED static void squared_error_loop(const float* const* in, float* out,
                                                             std::size_t count) {
  map_vectors<2>({in[0], in[1]}, out, count, [](FloatVector x, FloatVector t) HWY_ATTR {
    const FloatVector difference = hn::Sub(x, t);
    return hn::Mul(difference, difference);
  });
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void squared_error_gradient_loop(const float* const* in,
                                                                      float* out,
                                                                      std::size_t count) {
  map_vectors<3>({in[0], in[1], in[2]}, out, count,
                 [](FloatVector x, FloatVector t, FloatVector factor) HWY_ATTR {
                   const FloatVector difference = hn::Sub(x, t);
                   return hn::Mul(hn::Add(difference, difference), factor);
                 });
}

// max(x, 0) - x t + log(1 + exp(-|x|)). A target of zero subtracts nothing. At the infinities the
// result is the limit: 0 if the target is on the same side, else infinity.
HWY_NOINLINE HWY_MAYBE_UNUSED static void binary_cross_entropy_loop(const float* const* in,
                                                                    float* out, std::size_t count) {
  map_vectors<2>({in[0], in[1]}, out, count, [](FloatVector x, FloatVector t) HWY_ATTR {
    const Floats d;
    const FloatVector positive = at_least_lanes(d, x, 0.0f);
    const FloatVector linear =
        hn::IfThenElse(hn::Eq(t, hn::Zero(d)), positive, fused(d, hn::Neg(x), t, positive));
    const FloatVector size = hn::Abs(x);
    const FloatVector loss = hn::Add(linear, log_one_plus_lanes(d, exp_lanes(d, hn::Neg(size))));
    // The share of the target on the other side of x, times infinity.
    const FloatVector other =
        hn::IfThenElse(hn::Lt(x, hn::Zero(d)), t, hn::Sub(hn::Set(d, 1.0f), t));
    const FloatVector limit =
        hn::IfThenElse(hn::Eq(other, hn::Zero(d)), hn::Zero(d), hn::Mul(size, other));
    const auto infinite = hn::Eq(size, hn::Set(d, std::numeric_limits<float>::infinity()));
    return hn::IfThenElse(infinite, limit, loss);
  });
}

// (sigmoid(x) - t) * factor. For x above zero it is computed as ((1 - t) - sigmoid(-x)) * factor,
// which keeps its digits if both are nearly 1.
HWY_NOINLINE HWY_MAYBE_UNUSED static void binary_cross_entropy_gradient_loop(const float* const* in,
                                                                             float* out,
                                                                             std::size_t count) {
  map_vectors<3>({in[0], in[1], in[2]}, out, count,
                 [](FloatVector x, FloatVector t, FloatVector factor) HWY_ATTR {
                   const Floats d;
                   const FloatVector tail = sigmoid_lanes(d, hn::Neg(hn::Abs(x)));
                   const FloatVector slope = hn::IfThenElse(
                       hn::Gt(x, hn::Zero(d)), hn::Sub(hn::Sub(hn::Set(d, 1.0f), t), tail),
                       hn::Sub(tail, t));
                   return hn::Mul(slope, factor);
                 });
}

// |x - t|, and its slope sign(x - t), 0 where both are equal and NaN where one is.
HWY_NOINLINE HWY_MAYBE_UNUSED static void absolute_error_loop(const float* const* in, float* out,
                                                              std::size_t count) {
  map_vectors<2>({in[0], in[1]}, out, count,
                 [](FloatVector x, FloatVector t) HWY_ATTR { return hn::Abs(hn::Sub(x, t)); });
}
HWY_NOINLINE HWY_MAYBE_UNUSED static void absolute_error_gradient_loop(const float* const* in,
                                                                       float* out,
                                                                       std::size_t count) {
  map_vectors<3>({in[0], in[1], in[2]}, out, count,
                 [](FloatVector x, FloatVector t, FloatVector factor) HWY_ATTR {
                   const Floats d;
                   const FloatVector v = hn::Sub(x, t), zero = hn::Zero(d), one = hn::Set(d, 1.0f);
                   const FloatVector below = hn::IfThenElse(hn::Lt(v, zero), hn::Neg(one), v);
                   return hn::Mul(hn::IfThenElse(hn::Gt(v, zero), one, below), factor);
                 });
}

// n (d - n / 2) with d = |x - t| and n = min(d, p): d^2 / 2 up to p, p (d - p / 2) beyond.
HWY_INLINE FloatVector huber_lanes(FloatVector x, FloatVector t, FloatVector p) {
  const FloatVector d = hn::Abs(hn::Sub(x, t));
  const FloatVector n = hn::IfThenElse(hn::Gt(d, p), p, d);
  return hn::Mul(n, hn::Sub(d, hn::Mul(n, hn::Set(Floats(), 0.5f))));
}
// x - t, within -p to p.
HWY_INLINE FloatVector huber_slope_lanes(FloatVector x, FloatVector t, FloatVector p) {
  const FloatVector v = hn::Sub(x, t);
  const FloatVector most = hn::IfThenElse(hn::Gt(v, p), p, v);
  return hn::IfThenElse(hn::Lt(most, hn::Neg(p)), hn::Neg(p), most);
}
HWY_NOINLINE HWY_MAYBE_UNUSED static void huber_loop(const float* const* in, float* out,
                                                     std::size_t count) {
  map_vectors<3>({in[0], in[1], in[2]}, out, count,
                 [](FloatVector x, FloatVector t, FloatVector p)
                     HWY_ATTR { return huber_lanes(x, t, p); });
}
HWY_NOINLINE HWY_MAYBE_UNUSED static void huber_gradient_loop(const float* const* in, float* out,
                                                              std::size_t count) {
  map_vectors<4>({in[0], in[1], in[2], in[3]}, out, count,
                 [](FloatVector x, FloatVector t, FloatVector factor, FloatVector p)
                     HWY_ATTR { return hn::Mul(huber_slope_lanes(x, t, p), factor); });
}
HWY_NOINLINE HWY_MAYBE_UNUSED static void smooth_absolute_loop(const float* const* in, float* out,
                                                               std::size_t count) {
  map_vectors<3>({in[0], in[1], in[2]}, out, count,
                 [](FloatVector x, FloatVector t, FloatVector p)
                     HWY_ATTR { return hn::Div(huber_lanes(x, t, p), p); });
}
HWY_NOINLINE HWY_MAYBE_UNUSED static void smooth_absolute_gradient_loop(const float* const* in,
                                                                        float* out,
                                                                        std::size_t count) {
  map_vectors<4>({in[0], in[1], in[2], in[3]}, out, count,
                 [](FloatVector x, FloatVector t, FloatVector factor, FloatVector p)
                     HWY_ATTR { return hn::Mul(hn::Div(huber_slope_lanes(x, t, p), p), factor); });
}

// max(0, p - t x).
HWY_NOINLINE HWY_MAYBE_UNUSED static void hinge_loop(const float* const* in, float* out,
                                                     std::size_t count) {
  map_vectors<3>({in[0], in[1], in[2]}, out, count,
                 [](FloatVector x, FloatVector t, FloatVector p) HWY_ATTR {
                   const Floats d;
                   return at_least_lanes(d, fused(d, hn::Neg(t), x, p), 0.0f);
                 });
}
HWY_NOINLINE HWY_MAYBE_UNUSED static void hinge_gradient_loop(const float* const* in, float* out,
                                                              std::size_t count) {
  map_vectors<4>({in[0], in[1], in[2], in[3]}, out, count,
                 [](FloatVector x, FloatVector t, FloatVector factor, FloatVector p) HWY_ATTR {
                   const Floats d;
                   const FloatVector missing = fused(d, hn::Neg(t), x, p);
                   const FloatVector slope =
                       hn::IfThenElse(hn::Le(missing, hn::Zero(d)), hn::Zero(d), hn::Neg(t));
                   return hn::Mul(slope, factor);
                 });
}

// t (log t - x). With a target of zero the result is 0, even for an infinite x.
HWY_NOINLINE HWY_MAYBE_UNUSED static void divergence_loop(const float* const* in, float* out,
                                                          std::size_t count) {
  map_vectors<2>({in[0], in[1]}, out, count, [](FloatVector x, FloatVector t) HWY_ATTR {
    const Floats d;
    const FloatVector loss = hn::Mul(t, hn::Sub(log_lanes(d, t), x));
    return hn::IfThenElse(hn::Eq(t, hn::Zero(d)), hn::Zero(d), loss);
  });
}
HWY_NOINLINE HWY_MAYBE_UNUSED static void divergence_gradient_loop(const float* const* in,
                                                                   float* out, std::size_t count) {
  map_vectors<2>({in[1], in[2]}, out, count, [](FloatVector t, FloatVector factor) HWY_ATTR {
    return hn::Mul(hn::Neg(t), factor);
  });
}

struct ElementLossLoops {
  MapLoop forward, backward;
};
static inline ElementLossLoops element_loss_loops(ElementLoss loss) {
  switch (loss) {
    case ElementLoss::squared_error:
      break;
    case ElementLoss::binary_cross_entropy_logits:
      return {binary_cross_entropy_loop, binary_cross_entropy_gradient_loop};
    case ElementLoss::absolute_error:
      return {absolute_error_loop, absolute_error_gradient_loop};
    case ElementLoss::huber:
      return {huber_loop, huber_gradient_loop};
    case ElementLoss::smooth_absolute:
      return {smooth_absolute_loop, smooth_absolute_gradient_loop};
    case ElementLoss::hinge:
      return {hinge_loop, hinge_gradient_loop};
    case ElementLoss::divergence:
      return {divergence_loop, divergence_gradient_loop};
  }
  return {squared_error_loop, squared_error_gradient_loop};
}

static inline void element_loss_kernel(const ElementLossArgs& args) noexcept {
  const MatrixOperand parameter{.data = &args.parameter, .row_stride = 0, .column_stride = 0};
  const MatrixOperand* inputs[] = {&args.x, &args.target, &parameter};
  const MatrixTarget losses{.data = args.losses, .row_stride = args.columns};
  map_rows(args.rows, args.columns, inputs, has_parameter(args.loss) ? 3 : 2, 1, losses,
           element_loss_loops(args.loss).forward);
}

static inline void element_loss_backward_kernel(const ElementLossArgs& args) noexcept {
  const bool own = args.factors != nullptr;
  const MatrixOperand factors{.data = own ? args.factors : &args.factor,
                              .row_stride = own ? args.columns : 0,
                              .column_stride = own ? std::size_t{1} : 0};
  const MatrixOperand parameter{.data = &args.parameter, .row_stride = 0, .column_stride = 0};
  const MatrixOperand* inputs[] = {&args.x, &args.target, &factors, &parameter};
  map_rows(args.rows, args.columns, inputs, has_parameter(args.loss) ? 4 : 3, 1, args.dx,
           element_loss_loops(args.loss).backward);
}

static constexpr LossKernels loss_kernels{cross_entropy_kernel, cross_entropy_backward_kernel,
                                          class_sums_kernel, element_loss_kernel,
                                          element_loss_backward_kernel};

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
