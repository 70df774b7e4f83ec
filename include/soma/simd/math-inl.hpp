// Elementary functions in fp32 lanes, with the same bits on every target: every step is an IEEE
// operation or an explicit fused multiply-add (fused-inl.hpp). No other product is added to
// anything, because compilers may contract a product and a sum, across intrinsics too.
//
// Errors are in units in the last place (ulp) of the exact result, measured against a double libm
// over every seventh of all 2^32 floats and rounded up; tests/simd/vector_math_test.cpp asserts
// them over a coarser sweep. They hold if the result is at least 2^-126 in magnitude. A smaller
// result is rounded to a subnormal number, never flushed; unless a comment says otherwise, its
// error is at most the same number of units of 2^-149. Infinities give the limit, NaN gives NaN
// (its sign and payload are not promised).
//
// Polynomials are minimax, by Remez's exchange in 160 bits, weighted for the relative error of the
// function, coefficients rounded to fp32; each polynomial has its error after that rounding beside
// it.

#if defined(SOMA_SIMD_MATH_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_MATH_INL_HPP
#undef SOMA_SIMD_MATH_INL_HPP
#else
#define SOMA_SIMD_MATH_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ln 2 in two parts. The first has 21 bits, so its product with a small integer is exact.
inline constexpr float ln_2_high = 0x1.62e43p-1f, ln_2_low = -1.90465421e-9f;

// Coefficients from the highest power down to the constant.
template <class DF, class... Lower, class V = hn::Vec<DF>>
HWY_INLINE V polynomial(DF d, V x, float highest, Lower... lower) {
  V sum = hn::Set(d, highest);
  ((sum = fused(d, x, sum, hn::Set(d, lower))), ...);
  return sum;
}

// Keeps NaN: comparisons with NaN are false, while Min and Max differ by target.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V at_most_lanes(DF d, V x, float high) {
  const V top = hn::Set(d, high);
  return hn::IfThenElse(hn::Gt(x, top), top, x);
}

template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V at_least_lanes(DF d, V x, float low) {
  const V bottom = hn::Set(d, low);
  return hn::IfThenElse(hn::Lt(x, bottom), bottom, x);
}

template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V clamp_lanes(DF d, V x, float low, float high) {
  return at_least_lanes(d, at_most_lanes(d, x, high), low);
}

// exp x, to 0.9 ulp. Infinity where the exact value rounds to it (x > 88.722839), subnormal below
// -87.33655, zero below -103.97208.
// x = n ln 2 + r: the first step of the reduction is exact, the second rounds once.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V exp_lanes(DF d, V x) {
  const hn::RebindToSigned<DF> di;
  x = clamp_lanes(d, x, -105.0f, 90.0f);
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  const V shifted = fused(d, x, hn::Set(d, 1.44269504f), hn::Set(d, 0x1.8p23f));
  const V n = hn::Sub(shifted, hn::Set(d, 0x1.8p23f));
  const auto k = hn::Sub(hn::BitCast(di, shifted), hn::Set(di, 0x4B400000));
  V r = fused(d, n, hn::Set(d, -ln_2_high), x);
  r = fused(d, n, hn::Set(d, -ln_2_low), r);
  // |r| < 0.3473: 2^-28.2.
  const V e = polynomial(d, r, 1.38401880e-3f, 8.36934242e-3f, 4.16680835e-2f, 0.166665152f,
                         0.499999940f, 1.0f, 1.0f);
  // 2^k is the product of two exact factors, because 2^130 and 2^-152 are not fp32 numbers. The
  // last product is exact except for subnormal results, so if the compiler contracts it into a sum
  // with a number near 1, no bit changes.
  const auto half = hn::ShiftRight<1>(k);
  const auto one = hn::Set(di, 127);
  const V first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, one)));
  const V second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(k, half), one)));
  return hn::Mul(hn::Mul(e, first), second);
}

// k ln 2 + ln(1 + f), for f from sqrt(1/2) - 1 to sqrt(2) - 1 and integer k.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V log_sum_lanes(DF d, V k, V f) {
  // ln(1 + f) = f - f^2/2 + f^3 P(f): 2^-27.2.
  const V p = polynomial(d, f, -7.63561502e-2f, 0.127632946f, -0.131605849f, 0.142015591f,
                         -0.166232988f, 0.200012326f, -0.250008225f, 0.333333313f, -0.5f);
  const V rest = fused(d, hn::Mul(f, f), p, hn::Mul(k, hn::Set(d, ln_2_low)));
  return fused(d, k, hn::Set(d, ln_2_high), hn::Add(f, rest));
}

// Natural logarithm, to 0.9 ulp, subnormal arguments included. -infinity at either zero, NaN below.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V log_lanes(DF d, V x) {
  const hn::RebindToSigned<DF> di;
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const auto subnormal = hn::Lt(x, hn::Set(d, 0x1p-126f));
  const auto bits = hn::BitCast(di, hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 0x1p23f)), x));
  // Subtracting the bits of sqrt(1/2) carries into the exponent exactly when the significand is at
  // least sqrt(2).
  const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3F3504F3)));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  const V k = hn::Sub(hn::ConvertTo(d, exponent), hn::IfThenElseZero(subnormal, hn::Set(d, 23.0f)));
  const V result = log_sum_lanes(d, k, hn::Sub(m, hn::Set(d, 1.0f)));
  // Besides zero and negative numbers, only infinity and NaN remain.
  const auto regular = hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, infinity));
  const V negative = hn::IfThenElse(
      hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), hn::Add(x, x));
  const V special = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), negative);
  return hn::IfThenElse(regular, result, special);
}

// ln(1 + u) for u from 0 to 1, to 1.5 ulp, however small u is.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V log_one_plus_lanes(DF d, V u) {
  const V one = hn::Set(d, 1.0f);
  const auto upper = hn::Gt(u, hn::Set(d, 0.41421356f));
  // ln(1 + u) = ln 2 + ln(1 + (u - 1) / 2)
  const V f = hn::IfThenElse(upper, hn::Mul(hn::Sub(u, one), hn::Set(d, 0.5f)), u);
  return log_sum_lanes(d, hn::IfThenElseZero(upper, one), f);
}

// exp(-|x|) and 1 / (1 + exp(-|x|)), on which all logistic functions build.
template <class DF, class V = hn::Vec<DF>>
struct LogisticParts {
  V little, upper;
  HWY_INLINE LogisticParts(DF d, V x)
      : little(exp_lanes(d, hn::Neg(hn::Abs(x)))),
        upper(hn::Div(hn::Set(d, 1.0f), hn::Add(hn::Set(d, 1.0f), little))) {}
};

// 1 / (1 + exp(-x)), to 2.5 ulp.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V sigmoid_lanes(DF d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V little = exp_lanes(d, hn::Neg(hn::Abs(x)));
  const V above = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), little, one);
  return hn::Div(above, hn::Add(one, little));
}

// sigmoid(x) (1 - sigmoid(x)), to 5 ulp.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V sigmoid_derivative_lanes(DF d, V x) {
  const LogisticParts<DF> parts(d, x);
  return hn::Mul(hn::Mul(parts.upper, parts.upper), parts.little);
}

// x sigmoid(x), to 3.5 ulp for x > -87. Below, where the sigmoid is subnormal, within 2^-142; -0 at
// -infinity.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V silu_lanes(DF d, V x) {
  return hn::Mul(at_least_lanes(d, x, -110.0f), sigmoid_lanes(d, x));
}

// sigmoid(x) + x sigmoid(x) (1 - sigmoid(x)), to 3 ulp above zero and 6 ulp from -87 to -2; within
// 2^-22 everywhere (it has a zero at -1.2785).
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V silu_derivative_lanes(DF d, V x) {
  const V y = clamp_lanes(d, x, -110.0f, 110.0f);  // no infinity times zero
  const LogisticParts<DF> parts(d, y);
  // With u = |y|, s = 1 / (1 + e), e = exp(-u): s + u s s e above zero and e s - u s s e =
  // s e (1 - u s) below.
  const V u = hn::Abs(y), s = parts.upper, e = parts.little;
  const V positive = fused(d, hn::Mul(u, e), hn::Mul(s, s), s);
  const V negative = hn::Mul(hn::Mul(s, e), fused(d, hn::Neg(u), s, hn::Set(d, 1.0f)));
  return hn::IfThenElse(hn::Lt(y, hn::Zero(d)), negative, positive);
}

// ln(1 + exp x) = max(x, 0) + ln(1 + exp(-|x|)), to 1.9 ulp.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V softplus_lanes(DF d, V x) {
  const V little = exp_lanes(d, hn::Neg(hn::Abs(x)));
  const V positive = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Zero(d));
  return hn::Add(positive, log_one_plus_lanes(d, little));
}

// tanh, to 1.5 ulp. Near zero by x + x^3 P(x^2) (2^-28.4 up to 0.6), else 1 - 2 / (exp 2|x| + 1).
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V tanh_lanes(DF d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Abs(x), z = hn::Mul(x, x);
  const V p = polynomial(d, z, -5.89796621e-3f, 2.07986254e-2f, -5.37847169e-2f, 0.133319363f,
                         -0.333332986f);
  const V close_by = fused(d, hn::Mul(u, z), p, u);
  const V grown = exp_lanes(d, hn::Add(u, u));
  const V distant = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(grown, one)));
  const V magnitude = hn::IfThenElse(hn::Lt(u, hn::Set(d, 0.6f)), close_by, distant);
  return hn::CopySignToAbs(magnitude, x);
}

// 1 - tanh(x)^2 = 4 e / (1 + e)^2 with e = exp(-2|x|), to 5 ulp.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V tanh_derivative_lanes(DF d, V x) {
  const LogisticParts<DF> parts(d, hn::Add(x, x));
  return hn::Mul(hn::Mul(parts.upper, parts.upper), hn::Mul(hn::Set(d, 4.0f), parts.little));
}

// The tail of the normal distribution: Phi(-t) = decay * ratio with t = |x| (at most 15), decay =
// exp(-t^2/2) and ratio Mills' ratio over sqrt(2 pi).
//
// t^2 is taken in two parts, so that decay keeps its digits however far out. (t + 4) ratio is a
// polynomial in s = (t - 4) / (t + 4), up to t = 14.5: 2^-24.1; beyond, decay is zero. The rounding
// error of t + 4 is corrected by the derivative, ratio' = t ratio - 1 / sqrt(2 pi).
template <class DF, class V = hn::Vec<DF>>
struct NormalTail {
  V t, decay, ratio;
  HWY_INLINE NormalTail(DF d, V x) {
    t = at_most_lanes(d, hn::Abs(x), 15.0f);
    const V square = hn::Mul(t, t);
    const V rest = fused(d, t, t, hn::Neg(square));
    const V minus_half = hn::Set(d, -0.5f);
    const V rounded = exp_lanes(d, hn::Mul(square, minus_half));
    decay = fused(d, rounded, hn::Mul(rest, minus_half), rounded);
    const V sum = hn::Add(t, hn::Set(d, 4.0f));
    const V lost = hn::Sub(t, hn::Sub(sum, hn::Set(d, 4.0f)));
    const V inverse = hn::Div(hn::Set(d, 1.0f), sum);
    const V s = hn::Mul(hn::Sub(sum, hn::Set(d, 8.0f)), inverse);
    const V p = polynomial(d, s, -1.31971959e-4f, 1.79354203e-4f, 1.56992383e-3f, -3.51255387e-3f,
                           -7.52527174e-3f, 6.04038313e-2f, -0.186523438f, 0.387136906f,
                           -0.607896566f, 0.755285144f);
    const V close_by = hn::Mul(p, inverse);
    ratio = fused(d, lost, fused(d, t, close_by, hn::Set(d, -0.398942280f)), close_by);
  }
};

// Phi(x) = (1 + erf(x / sqrt 2)) / 2, the cumulative normal distribution, to 5 ulp, the far
// negative tail included.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V normal_cumulative_lanes(DF d, V x) {
  const NormalTail<DF> tail(d, x);
  const V below = hn::Mul(tail.decay, tail.ratio);
  const V above = fused(d, hn::Neg(tail.decay), tail.ratio, hn::Set(d, 1.0f));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, above);
}

// x Phi(x), to 5 ulp everywhere, the far negative tail included; -0 at -infinity.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V gelu_lanes(DF d, V x) {
  const NormalTail<DF> tail(d, x);
  const V weight = hn::Neg(hn::Mul(tail.t, tail.ratio));
  const V above = fused(d, tail.decay, weight, x);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(tail.decay, weight), above);
}

// Phi(x) + x phi(x), to 3 ulp above zero and 3.5 ulp from -13 to -2; within 2^-22.5 everywhere (it
// has a zero at -0.7518).
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V gelu_derivative_lanes(DF d, V x) {
  const NormalTail<DF> tail(d, x);
  const V slope = fused(d, tail.t, hn::Set(d, -0.398942280f), tail.ratio);  // 1 / sqrt(2 pi)
  const V below = hn::Mul(tail.decay, slope);
  const V above = fused(d, hn::Neg(tail.decay), slope, hn::Set(d, 1.0f));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, above);
}

// sqrt(8 / pi) (x + 0.044715 x^3): gelu_tanh(x) = x sigmoid(of this).
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V gelu_tanh_argument(DF d, V x) {
  return hn::Mul(x, fused(d, hn::Mul(x, x), hn::Set(d, 7.13548163e-2f), hn::Set(d, 1.59576912f)));
}

// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), to 2.5 ulp above zero. Below zero, the rounding of
// the exponent makes the error larger: 14 ulp to -3, 210 ulp to -10; within 2^-24 everywhere.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V gelu_tanh_lanes(DF d, V x) {
  x = at_least_lanes(d, x, -12.0f);  // there it is zero
  return hn::Mul(x, sigmoid_lanes(d, gelu_tanh_argument(d, x)));
}

// With v = gelu_tanh_argument(x): s + x s (1 - s) v' with s = sigmoid(v). To 3 ulp above zero;
// within 2^-22 everywhere (it has a zero at -0.7525).
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V gelu_tanh_derivative_lanes(DF d, V x) {
  const V y = clamp_lanes(d, x, -12.0f, 12.0f);  // beyond, s (1 - s) is zero
  const LogisticParts<DF> parts(d, gelu_tanh_argument(d, y));
  const V slope = fused(d, hn::Mul(y, y), hn::Set(d, 0.214064449f), hn::Set(d, 1.59576912f));
  const V u = hn::Mul(hn::Abs(y), slope), s = parts.upper, e = parts.little;
  const V positive = fused(d, hn::Mul(u, e), hn::Mul(s, s), s);
  const V negative = hn::Mul(hn::Mul(s, e), fused(d, hn::Neg(u), s, hn::Set(d, 1.0f)));
  return hn::IfThenElse(hn::Lt(y, hn::Zero(d)), negative, positive);
}

// ---- sine and cosine

// |x| from 2^18 pi/2 up, or infinity, by Payne and Hanek's method: the significand times a window
// of 96 bits of 1 / (2 pi) leaves a fraction of a turn in fixed point. Returns x - quadrant * pi/2.
static inline float reduce_far(float magnitude, std::int32_t& quadrant) {
  constexpr std::uint32_t turns[6] = {0x28BE60DB, 0x9391054A, 0x7F09D5F4,
                                      0x7D4D3770, 0x36D8A566, 0x4F10E410};
  std::uint32_t bits;
  std::memcpy(&bits, &magnitude, sizeof bits);
  quadrant = 0;
  if (bits >= 0x7F800000u) return std::numeric_limits<float>::quiet_NaN();
  const std::uint64_t significand = (bits & 0x7FFFFFu) << 8 | 0x80000000u;
  const std::uint32_t exponent = (bits >> 23) - 126, word = exponent / 32, shift = exponent % 32;
  std::uint64_t window[3];
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::uint32_t at = word + i;  // the window's first word lies one before the table at 0
    const std::uint32_t high = at == 0 ? 0 : turns[at - 1], low = turns[at < 6 ? at : 5];
    window[i] = shift == 0 ? high : (high << shift | low >> (32 - shift));
  }
  std::uint64_t product = significand * window[2];
  product = significand * window[1] + (product >> 32);
  product += significand * window[0] << 32;  // whole turns overflow and are gone
  quadrant = static_cast<std::int32_t>((product + (std::uint64_t{1} << 61)) >> 62);
  const auto rest =
      static_cast<std::int64_t>(product - (static_cast<std::uint64_t>(quadrant) << 62));
  return static_cast<float>(static_cast<double>(rest) * 0x1.921fb54442d18p-62);
}

// x - n pi/2 for the integer n nearest to x / (pi/2), x >= 0; n's low two bits count.
template <class DF, class V = hn::Vec<DF>, class VI = hn::Vec<hn::RebindToSigned<DF>>>
HWY_INLINE void reduce_quarter_turns(DF d, V x, V& r, VI& n) {
  const hn::RebindToSigned<DF> di;
  const V shifted = fused(d, x, hn::Set(d, 0.636619772f), hn::Set(d, 0x1.8p23f));
  const V whole = hn::Sub(shifted, hn::Set(d, 0x1.8p23f));
  n = hn::BitCast(di, shifted);
  // pi/2 in three parts. The first step is exact: multiples of 2^-23 (or of x's own unit) below 1.
  r = fused(d, whole, hn::Set(d, -0x1.921fb6p0f), x);
  r = fused(d, whole, hn::Set(d, 0x1.777a5cp-25f), r);
  r = fused(d, whole, hn::Set(d, 0x1.ee59dap-50f), r);
  const auto distant = hn::Gt(x, hn::Set(d, 0x1.921fb6p18f));
  if (HWY_UNLIKELY(!hn::AllFalse(d, distant))) {
    alignas(64) float values[16], rests[16];
    alignas(64) std::int32_t quadrants[16];
    hn::Store(x, d, values);
    hn::Store(r, d, rests);
    hn::Store(n, di, quadrants);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i)
      if (values[i] > 0x1.921fb6p18f) rests[i] = reduce_far(values[i], quadrants[i]);
    r = hn::Load(d, rests);
    n = hn::Load(di, quadrants);
  }
}

// sin r (2^-27.8) in even quadrants, cos r (2^-32.7) in odd ones, with the sign of n.
template <class DF, class V = hn::Vec<DF>, class VI = hn::Vec<hn::RebindToSigned<DF>>>
HWY_INLINE V sine_of_quadrant(DF d, V r, VI n) {
  const hn::RebindToSigned<DF> di;
  const V z = hn::Mul(r, r);
  const V s = polynomial(d, z, -1.95078712e-4f, 8.33210628e-3f, -0.166666538f);
  const V sine = fused(d, hn::Mul(r, z), s, r);
  const V c = polynomial(d, z, 2.44300845e-5f, -1.38872978e-3f, 4.16666456e-2f, -0.5f, 1.0f);
  const auto odd = hn::RebindMask(d, hn::Ne(hn::And(n, hn::Set(di, 1)), hn::Zero(di)));
  const V sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(n, hn::Set(di, 2))));
  return hn::Xor(hn::IfThenElse(odd, c, sine), sign);
}

// Sine and cosine of any finite x, to 1.6 ulp; NaN of an infinity. Beyond 2^18 pi/2 (411775) slow:
// one lane at a time.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V sin_lanes(DF d, V x) {
  V r;
  hn::Vec<hn::RebindToSigned<DF>> n;
  reduce_quarter_turns(d, hn::Abs(x), r, n);
  return hn::Xor(sine_of_quadrant(d, r, n), hn::And(x, hn::Set(d, -0.0f)));
}

template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V cos_lanes(DF d, V x) {
  const hn::RebindToSigned<DF> di;
  V r;
  hn::Vec<decltype(di)> n;
  reduce_quarter_turns(d, hn::Abs(x), r, n);
  return sine_of_quadrant(d, r, hn::Add(n, hn::Set(di, 1)));
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
