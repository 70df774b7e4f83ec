// Normal draws in vector lanes: the Box-Muller transform, in fp32 with explicit fused
// multiply-adds (fused-inl.hpp), so that the bits are the same on every target.

#if defined(SOMA_SIMD_NORMAL_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_NORMAL_INL_HPP
#undef SOMA_SIMD_NORMAL_INL_HPP
#else
#define SOMA_SIMD_NORMAL_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// -2 ln(x * 2^-31) for x in [1, 2^31].
// With x = 2^k m and m in [sqrt(1/2), sqrt(2)): ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <
// 0.1716. The series is cut after s^9, which leaves a relative error below s^10 / 11 = 2e-9;
// rounding dominates, 2 to 3 units in the last place.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V minus_two_log_31(DF d, V x) {
  const hn::RebindToSigned<DF> di;
  const auto bits = hn::BitCast(di, x);
  // Subtracting the bits of sqrt(1/2) carries into the exponent exactly when the significand is at
  // least sqrt(2).
  const auto shifted = hn::Sub(bits, hn::Set(di, 0x3F3504F3));
  const auto k = hn::ShiftRight<23>(shifted);
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(k)));
  const V one = hn::Set(d, 1.0f);
  const V s = hn::Div(hn::Sub(m, one), hn::Add(m, one));
  const V z = hn::Mul(s, s);
  V series = fused(d, z, hn::Set(d, -4.0f / 9), hn::Set(d, -4.0f / 7));
  series = fused(d, z, series, hn::Set(d, -4.0f / 5));
  series = fused(d, z, series, hn::Set(d, -4.0f / 3));
  series = fused(d, z, series, hn::Set(d, -4.0f));
  const V exponent = hn::ConvertTo(d, hn::Sub(k, hn::Set(di, 31)));
  // -2 ln 2, which times an integer of 5 bits and added to the series is rounded once.
  return fused(d, exponent, hn::Set(d, -1.38629436111989f), hn::Mul(s, series));
}

// sin and cos of 2 pi w / 2^24, for w from 0 to 2^24 - 1. The angle is a whole number of quarter
// turns plus t / 4 turns with |t| <= 1/2, exactly. Taylor series of sin and cos of t pi/2, cut
// after t^9 and t^10: below 2e-9.
template <class DF, class VI = hn::Vec<hn::RebindToSigned<DF>>, class V = hn::Vec<DF>>
HWY_INLINE void sin_cos_turn(DF d, VI w, V& sine, V& cosine) {
  const hn::RebindToSigned<DF> di;
  const VI quarter = hn::ShiftRight<22>(hn::Add(w, hn::Set(di, 1 << 21)));
  const V t =
      hn::Mul(hn::ConvertTo(d, hn::Sub(w, hn::ShiftLeft<22>(quarter))), hn::Set(d, 0x1p-22f));
  const V z = hn::Mul(t, t);
  V s = fused(d, z, hn::Set(d, 1.60441184787e-4f), hn::Set(d, -4.68175413532e-3f));
  s = fused(d, z, s, hn::Set(d, 7.96926262462e-2f));
  s = fused(d, z, s, hn::Set(d, -6.45964097506e-1f));
  s = hn::Mul(t, fused(d, z, s, hn::Set(d, 1.57079632679f)));
  V c = fused(d, z, hn::Set(d, -2.52020423731e-5f), hn::Set(d, 9.19260274839e-4f));
  c = fused(d, z, c, hn::Set(d, -2.08634807634e-2f));
  c = fused(d, z, c, hn::Set(d, 2.53669507901e-1f));
  c = fused(d, z, c, hn::Set(d, -1.23370055014f));
  c = fused(d, z, c, hn::Set(d, 1.0f));
  // Quarter turns 1 and 3 swap the two; sine is negative from 2 to 3, cosine from 1 to 2.
  const auto swap = hn::RebindMask(d, hn::Ne(hn::And(quarter, hn::Set(di, 1)), hn::Zero(di)));
  const V sine_sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(quarter, hn::Set(di, 2))));
  const V cosine_sign =
      hn::BitCast(d, hn::ShiftLeft<30>(hn::And(hn::Add(quarter, hn::Set(di, 1)), hn::Set(di, 2))));
  sine = hn::Xor(hn::IfThenElse(swap, c, s), sine_sign);
  cosine = hn::Xor(hn::IfThenElse(swap, s, c), cosine_sign);
}

// Two independent normal draws from the two words of a pair. The first word gives the radius by its
// upper 31 bits (made odd, so never zero: draws reach 6.55 standard deviations) as an fp32 number,
// the second the angle by its upper 24.
template <class D32, class V32 = hn::Vec<D32>, class V = hn::Vec<hn::RebindToFloat<D32>>>
HWY_INLINE void normal_pair(D32 d, V32 radius_word, V32 angle_word, V& first, V& second) {
  const hn::RebindToSigned<D32> di;
  const hn::RebindToFloat<D32> df;
  const auto odd = hn::Or(hn::ShiftRight<1>(radius_word), hn::Set(d, 1u));
  const V radius = hn::Sqrt(minus_two_log_31(df, hn::ConvertTo(df, hn::BitCast(di, odd))));
  V sine, cosine;
  sin_cos_turn(df, hn::BitCast(di, hn::ShiftRight<8>(angle_word)), sine, cosine);
  first = hn::Mul(radius, cosine);
  second = hn::Mul(radius, sine);
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
