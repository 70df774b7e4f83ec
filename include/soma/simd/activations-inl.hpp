// Activations composed of the elementary functions of math-inl.hpp, and their derivatives, a vector
// at a time. kernels/reference/element.hpp defines them. A comment states the error if it is larger
// than the error of the elementary functions.

#if defined(SOMA_SIMD_ACTIVATIONS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_ACTIVATIONS_INL_HPP
#undef SOMA_SIMD_ACTIVATIONS_INL_HPP
#else
#define SOMA_SIMD_ACTIVATIONS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/simd/math-inl.hpp>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x sigmoid(1.702 x), to 4 ulp above zero. Below zero, the rounding of the exponent makes the error
// larger: 80 ulp to -50; within 2^-24 everywhere.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V gelu_sigmoid_lanes(DF d, V x) {
  const V v = hn::Mul(x, hn::Set(d, 1.702f));
  return hn::Mul(at_least_lanes(d, x, -65.0f), sigmoid_lanes(d, v));
}
// With v = 1.702 x it is the derivative of silu at v; within 2^-21 everywhere.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V gelu_sigmoid_derivative_lanes(DF d, V x) {
  return silu_derivative_lanes(d, hn::Mul(x, hn::Set(d, 1.702f)));
}

// tanh(ln(1 + exp x)) with e = exp(-|x|): (1 + 2 e) / (1 + 2 e + 2 e^2) above zero, and
// e (e + 2) / (e^2 + 2 e + 2) below: no cancellation, and no number that is too large.
template <class DF, class V = hn::Vec<DF>>
struct MishParts {
  V little, gate, below;  // e, the tanh, and 1 / (e^2 + 2 e + 2) of the negative side
  hn::Mask<DF> negative;
  HWY_INLINE MishParts(DF d, V x)
      : little(exp_lanes(d, hn::Neg(hn::Abs(x)))), negative(hn::Lt(x, hn::Zero(d))) {
    const V one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f), e = little;
    const V distant = hn::Mul(e, hn::Add(e, two));  // e^2 + 2 e
    const V close_by = fused(d, e, two, one);       // 1 + 2 e
    const V numerator = hn::IfThenElse(negative, distant, close_by);
    const V rest = hn::IfThenElse(negative, two, hn::Mul(hn::Mul(two, e), e));
    below = hn::Div(one, hn::Add(numerator, rest));
    gate = hn::Div(numerator, hn::Add(numerator, rest));
  }
};

// x tanh(ln(1 + exp x)), to 5 ulp for x > -87. Below, where exp x is subnormal, within 2^-141; -0
// at -infinity.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V mish_lanes(DF d, V x) {
  const V y = at_least_lanes(d, x, -110.0f);
  return hn::Mul(y, MishParts<DF>(d, y).gate);
}
// gate + 4 x e^2 (1 + e) / D^2 above zero, gate + 4 x e (1 + e) / D^2 below, D being the
// denominator of the gate; within 2^-21 everywhere (it has a zero at -1.1924).
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V mish_derivative_lanes(DF d, V x) {
  const V y = clamp_lanes(d, x, -110.0f, 110.0f);  // no infinity times zero
  const MishParts<DF> parts(d, y);
  const V one = hn::Set(d, 1.0f), e = parts.little;
  const V power = hn::IfThenElse(parts.negative, e, hn::Mul(e, e));
  const V slope = hn::Mul(hn::Mul(power, hn::Add(one, e)), hn::Mul(parts.below, parts.below));
  return fused(d, hn::Mul(hn::Set(d, 4.0f), y), slope, parts.gate);
}

// 1/2 (1 + erf((x - 0.707107) / (0.282095 sqrt 2))), within 2^-22; the rounding of the argument
// dominates if the result is small.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V laplace_argument(DF d, V x) {
  return hn::Div(hn::Sub(x, hn::Set(d, 0.707107f)), hn::Set(d, 0.282095f));
}
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V laplace_lanes(DF d, V x) {
  return normal_cumulative_lanes(d, laplace_argument(d, x));
}
// Within 2^-21.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V laplace_derivative_lanes(DF d, V x) {
  const V t = clamp_lanes(d, laplace_argument(d, x), -20.0f, 20.0f);
  const V decay = exp_lanes(d, hn::Mul(hn::Mul(t, t), hn::Set(d, -0.5f)));
  return hn::Mul(decay, hn::Set(d, 1.41421252f));  // 1 / (0.282095 sqrt(2 pi))
}

// x; below zero, exp(x) - 1 = 2 t / (1 - t) with t = tanh(x / 2), which keeps its digits near zero.
// Error up to 4 ulp.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V elu_lanes(DF d, V x) {
  const V t = tanh_lanes(d, hn::Mul(x, hn::Set(d, 0.5f)));
  const V below = hn::Div(hn::Add(t, t), hn::Sub(hn::Set(d, 1.0f), t));
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, below);
}

// (x + 3) / 6, within 0 to 1; within 2^-23.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V hard_sigmoid_lanes(DF d, V x) {
  const V shifted = clamp_lanes(d, hn::Add(x, hn::Set(d, 3.0f)), 0.0f, 6.0f);
  return hn::Div(shifted, hn::Set(d, 6.0f));
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
