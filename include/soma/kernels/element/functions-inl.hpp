// Element-wise functions and their derivatives, a vector at a time. Their definitions are in
// kernels/reference/element.hpp; the errors of those that are approximations in simd/math-inl.hpp.

#if defined(SOMA_KERNELS_ELEMENT_FUNCTIONS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ELEMENT_FUNCTIONS_INL_HPP
#undef SOMA_KERNELS_ELEMENT_FUNCTIONS_INL_HPP
#else
#define SOMA_KERNELS_ELEMENT_FUNCTIONS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/element/args.hpp>
#include <soma/simd/activations-inl.hpp>
#include <soma/simd/math-inl.hpp>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <Unary kFunction, class DF, class V = hn::Vec<DF>>
HWY_INLINE V unary_lanes(DF d, V x) {
  if constexpr (kFunction == Unary::copy) return x;
  if constexpr (kFunction == Unary::negate) return hn::Neg(x);
  if constexpr (kFunction == Unary::absolute) return hn::Abs(x);
  if constexpr (kFunction == Unary::square) return hn::Mul(x, x);
  if constexpr (kFunction == Unary::square_root) return hn::Sqrt(x);
  if constexpr (kFunction == Unary::reciprocal) return hn::Div(hn::Set(d, 1.0f), x);
  if constexpr (kFunction == Unary::exponential) return exp_lanes(d, x);
  if constexpr (kFunction == Unary::logarithm) return log_lanes(d, x);
  if constexpr (kFunction == Unary::sine) return sin_lanes(d, x);
  if constexpr (kFunction == Unary::cosine) return cos_lanes(d, x);
  if constexpr (kFunction == Unary::relu) return at_least_lanes(d, x, 0.0f);
  if constexpr (kFunction == Unary::gelu) return gelu_lanes(d, x);
  if constexpr (kFunction == Unary::gelu_tanh) return gelu_tanh_lanes(d, x);
  if constexpr (kFunction == Unary::tanh) return tanh_lanes(d, x);
  if constexpr (kFunction == Unary::sigmoid) return sigmoid_lanes(d, x);
  if constexpr (kFunction == Unary::silu) return silu_lanes(d, x);
  if constexpr (kFunction == Unary::softplus) return softplus_lanes(d, x);
  if constexpr (kFunction == Unary::gelu_sigmoid) return gelu_sigmoid_lanes(d, x);
  if constexpr (kFunction == Unary::gelu_clipped)
    return at_most_lanes(d, gelu_lanes(d, x), gelu_clip);
  if constexpr (kFunction == Unary::mish) return mish_lanes(d, x);
  if constexpr (kFunction == Unary::leaky_relu)
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, hn::Set(d, leaky_slope)), x);
  if constexpr (kFunction == Unary::relu6) return clamp_lanes(d, x, 0.0f, 6.0f);
  if constexpr (kFunction == Unary::relu_squared) {
    const V y = at_least_lanes(d, x, 0.0f);
    return hn::Mul(y, y);
  }
  if constexpr (kFunction == Unary::laplace) return laplace_lanes(d, x);
  if constexpr (kFunction == Unary::elu) return elu_lanes(d, x);
  if constexpr (kFunction == Unary::hard_sigmoid) return hard_sigmoid_lanes(d, x);
  if constexpr (kFunction == Unary::hard_swish)
    return hn::Mul(at_least_lanes(d, x, -3.0f), hard_sigmoid_lanes(d, x));
  if constexpr (kFunction == Unary::hard_tanh) return clamp_lanes(d, x, -1.0f, 1.0f);
}

// 0 at zero, and NaN of NaN, as x itself there.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V sign_lanes(DF d, V x) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  return hn::IfThenElse(hn::Gt(x, zero), one, hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one), x));
}

template <Unary kFunction, class DF, class V = hn::Vec<DF>>
HWY_INLINE V unary_derivative_lanes(DF d, V x) {
  const V one = hn::Set(d, 1.0f);
  if constexpr (kFunction == Unary::copy) return one;
  if constexpr (kFunction == Unary::negate) return hn::Neg(one);
  if constexpr (kFunction == Unary::absolute) return sign_lanes(d, x);
  if constexpr (kFunction == Unary::square) return hn::Add(x, x);
  if constexpr (kFunction == Unary::square_root) return hn::Div(hn::Set(d, 0.5f), hn::Sqrt(x));
  if constexpr (kFunction == Unary::exponential) return exp_lanes(d, x);
  if constexpr (kFunction == Unary::logarithm) return hn::Div(one, x);
  if constexpr (kFunction == Unary::sine) return cos_lanes(d, x);
  if constexpr (kFunction == Unary::cosine) return hn::Neg(sin_lanes(d, x));
  if constexpr (kFunction == Unary::gelu) return gelu_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::gelu_tanh) return gelu_tanh_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::tanh) return tanh_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::sigmoid) return sigmoid_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::silu) return silu_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::softplus) return sigmoid_lanes(d, x);
  if constexpr (kFunction == Unary::gelu_sigmoid) return gelu_sigmoid_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::gelu_clipped) return gelu_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::mish) return mish_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::leaky_relu)
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), one, hn::Set(d, leaky_slope));
  if constexpr (kFunction == Unary::relu6) return one;
  if constexpr (kFunction == Unary::relu_squared) return hn::Add(x, x);
  if constexpr (kFunction == Unary::laplace) return laplace_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::elu)
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), one, exp_lanes(d, x));
  if constexpr (kFunction == Unary::hard_sigmoid) return hn::Set(d, 1.0f / 6);
  if constexpr (kFunction == Unary::hard_swish)
    return hn::IfThenElse(hn::Ge(x, hn::Set(d, 3.0f)), one,
                          fused(d, x, hn::Set(d, 1.0f / 3), hn::Set(d, 0.5f)));
  if constexpr (kFunction == Unary::hard_tanh) return one;
}

// NaN where either is NaN; of equal ones (zeros of both signs too) maximum and minimum give b.
template <Binary kFunction, class DF, class V = hn::Vec<DF>>
HWY_INLINE V binary_lanes(DF, V a, V b) {
  if constexpr (kFunction == Binary::add) return hn::Add(a, b);
  if constexpr (kFunction == Binary::subtract) return hn::Sub(a, b);
  if constexpr (kFunction == Binary::multiply) return hn::Mul(a, b);
  if constexpr (kFunction == Binary::divide) return hn::Div(a, b);
  if constexpr (kFunction == Binary::maximum)
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  if constexpr (kFunction == Binary::minimum)
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
}

// Where a function is cut off, so that its gradient is 0 whatever dy is.
template <Unary kFunction, class DF, class V = hn::Vec<DF>>
HWY_INLINE hn::Mask<DF> cut_off_lanes(DF d, V x) {
  if constexpr (kFunction == Unary::gelu_clipped) return hn::Gt(x, hn::Set(d, gelu_clip));
  if constexpr (kFunction == Unary::hard_swish) return hn::Le(x, hn::Set(d, -3.0f));
  if constexpr (kFunction == Unary::hard_sigmoid) return hn::Ge(hn::Abs(x), hn::Set(d, 3.0f));
  if constexpr (kFunction == Unary::hard_tanh) return hn::Ge(hn::Abs(x), hn::Set(d, 1.0f));
  const hn::Mask<DF> below = hn::Le(x, hn::Zero(d));
  if constexpr (kFunction == Unary::relu6) return hn::Or(below, hn::Ge(x, hn::Set(d, 6.0f)));
  return below;
}

// dy times the derivative, but functions that are cut off select: an infinite or NaN dy must not
// spoil an element that relu made 0. The zero has dy's sign, as a product has. The derivative of
// 1/x may be below or above all numbers where the result is not.
template <Unary kFunction, class DF, class V = hn::Vec<DF>>
HWY_INLINE V unary_gradient_lanes(DF d, V x, V dy) {
  if constexpr (kFunction == Unary::reciprocal) {
    const V y = hn::Div(hn::Set(d, 1.0f), x);
    return hn::Mul(hn::Mul(dy, y), hn::Neg(y));
  } else if constexpr (kFunction == Unary::relu) {
    return hn::IfThenElse(cut_off_lanes<kFunction>(d, x), hn::And(dy, hn::SignBit(d)), dy);
  } else if constexpr (is_cut_off(kFunction)) {
    return hn::IfThenElse(cut_off_lanes<kFunction>(d, x), hn::And(dy, hn::SignBit(d)),
                          hn::Mul(dy, unary_derivative_lanes<kFunction>(d, x)));
  } else {
    return hn::Mul(dy, unary_derivative_lanes<kFunction>(d, x));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
