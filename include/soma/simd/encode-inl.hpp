// Encoding in vector lanes: the function of numeric/codec.hpp's encode() for fp32 inputs, on u32
// lanes.
//
// A magnitude with fp32 exponent field e and significand s (24 bits) is placed in a fixed-point
// number t whose top part, shifted right by `shift`, is the code:  t = (field - 1) << 23 | s, field
// = e - 127 + bias, shift = 23 - M; below the smallest normal number field stays 1 and shift grows.
// Rounding adds to t before the shift; a carry runs into the exponent by itself. Some 20 integer
// operations a vector, no floating-point ones: nothing that a mode or flag can change.

#if defined(SOMA_SIMD_ENCODE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_ENCODE_INL_HPP
#undef SOMA_SIMD_ENCODE_INL_HPP
#else
#define SOMA_SIMD_ENCODE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/simd/codec_params.hpp>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The four directed modes share a loop: the addend depends on the sign only.
enum class RoundingClass { nearest_even, directed, stochastic };

// The cases that the common path leaves out, if params.rare is set. `code` has no sign yet, except
// if the format keeps NaN there: then a set sign bit in `code` is the NaN.
template <class D32, class V32 = hn::Vec<D32>, class M32 = hn::Mask<D32>>
HWY_NOINLINE static V32 patch_rare(D32 d, const CodecParams& p, V32 bits, V32 code, M32 is_nan) {
  const V32 zero = hn::Zero(d);
  const V32 sign = hn::And(hn::ShiftRightSame(hn::And(bits, hn::Set(d, 0x80000000u)), p.sign_shift),
                           hn::Set(d, p.sign_mask));
  if (p.flush_subnormals)
    code = hn::IfThenZeroElse(hn::Lt(code, hn::Set(d, 1u << p.mantissa_bits)), code);
  if (p.nan_is_negative_zero) return hn::IfThenZeroElse(hn::Eq(code, zero), hn::Or(code, sign));
  if (!p.is_signed) {
    const M32 below_zero =
        hn::Gt(bits, hn::Set(d, 0x80000000u));  // not -0, and not NaN, which has its code already
    return hn::IfThenElse(hn::AndNot(is_nan, below_zero),
                          hn::Set(d, p.nan_is_max ? 0u : p.nan_base | p.nan_quiet), code);
  }
  return p.nan_is_max ? hn::IfThenElse(is_nan, code, hn::Or(code, sign)) : hn::Or(code, sign);
}

// The addend before the shift, for nearest-even and the directed modes. "Even" refers to the
// significand that remains: without mantissa bits it is never even, and ties round away from zero,
// as in IEEE 754 section 4.3.1.
template <RoundingClass kClass, class D32, class V32 = hn::Vec<D32>>
HWY_INLINE V32 rounding_addend(D32 d, const CodecParams& p, V32 bits, V32 significand, V32 shift) {
  const V32 one = hn::Set(d, 1u);
  const V32 discarded = hn::Sub(hn::Shl(one, shift), one);  // mask of the bits that go
  const V32 below_half = hn::ShiftRight<1>(discarded);
  if (kClass == RoundingClass::nearest_even)
    return hn::Add(below_half, hn::And(hn::Shr(significand, shift), hn::And(discarded, one)));
  // nearest_away adds half; up and down add everything on the side where they move away from zero.
  const V32 negative =
      hn::BitCast(d, hn::ShiftRight<31>(hn::BitCast(hn::RebindToSigned<D32>(), bits)));
  const V32 away = hn::Sub(discarded, below_half);
  switch (p.mode) {
    case RoundingMode::nearest_away:
      return away;
    case RoundingMode::up:
      return hn::AndNot(negative, discarded);
    case RoundingMode::down:
      return hn::And(negative, discarded);
    default:
      return hn::Zero(d);
  }
}

// 1 in lanes where the discarded field, its top 32 bits, plus the random word carries; else 0.
// `shift` up to 63.
template <class D32, class V32 = hn::Vec<D32>>
HWY_INLINE V32 stochastic_carry(D32 d, V32 fixed, V32 shift, V32 word) {
  const V32 short_shift = hn::Min(shift, hn::Set(d, 31u));
  // fixed << (32 - shift), in two steps because a shift by 32 is undefined.
  const V32 aligned = hn::ShiftLeft<1>(hn::Shl(fixed, hn::Sub(hn::Set(d, 31u), short_shift)));
  const V32 excess = hn::Sub(hn::Max(shift, hn::Set(d, 32u)), hn::Set(d, 32u));
  const auto long_field = hn::Gt(shift, hn::Set(d, 31u));
  const V32 top = hn::IfThenElse(long_field, hn::Shr(fixed, excess), aligned);
  return hn::IfThenElseZero(hn::Gt(top, hn::Not(word)), hn::Set(d, 1u));
}

// The part of `fixed` above the discarded field, plus the carry. Where a field has 1 to 31 bits
// it and as many top bits of the word carry exactly if it and the whole word do: one addition. Zero
// counts as such, whatever its shift.
template <class D32, class V32 = hn::Vec<D32>>
HWY_INLINE V32 stochastic_code(D32 d, const CodecParams& p, V32 fixed, V32 shift, V32 random) {
  const hn::RebindToSigned<D32> di;
  const V32 word = hn::And(random, hn::Set(d, p.random_mask));
  const V32 short_shift = hn::Min(shift, hn::Set(d, 31u));
  const auto is_long = hn::Gt(hn::BitCast(di, shift), hn::Set(di, 31));
  const V32 long_fixed = hn::IfThenElseZero(hn::RebindMask(d, is_long), fixed);
  if (HWY_LIKELY(p.mantissa_bits < 23 && hn::AllTrue(d, hn::Eq(long_fixed, hn::Zero(d)))))
    return hn::Shr(hn::Add(fixed, hn::Shr(word, hn::Sub(hn::Set(d, 32u), short_shift))),
                   short_shift);
  const V32 kept = hn::IfThenElseZero(hn::Lt(shift, hn::Set(d, 32u)), hn::Shr(fixed, short_shift));
  return hn::Add(kept, stochastic_carry(d, fixed, shift, word));
}

// Codes (right-aligned) of fp32 values given as their bits. `random` counts for
// RoundingClass::stochastic only.
template <RoundingClass kClass, bool kDeep, class D32, class V32 = hn::Vec<D32>>
HWY_INLINE V32 encode_lanes(D32 d, const CodecParams& p, V32 bits, V32 random) {
  const hn::RebindToSigned<D32> di;
  const hn::RebindToFloat<D32> df;
  using VI32 = hn::Vec<decltype(di)>;
  const V32 magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFFu));
  const V32 sign = hn::And(bits, hn::Set(d, 0x80000000u));

  VI32 exponent = hn::BitCast(di, hn::ShiftRight<23>(magnitude));
  V32 significand;
  if (kDeep) {
    // fp32 subnormals are m * 2^-149: as a float of its own, m gives the exponent and the
    // significand they would have.
    const V32 as_float = hn::BitCast(d, hn::ConvertTo(df, hn::BitCast(di, magnitude)));
    const auto subnormal = hn::Eq(exponent, hn::Zero(di));
    const VI32 true_exponent =
        hn::Sub(hn::BitCast(di, hn::ShiftRight<23>(as_float)), hn::Set(di, 149));
    exponent = hn::IfThenElse(subnormal, true_exponent, exponent);
    const V32 source = hn::IfThenElse(hn::RebindMask(d, subnormal), as_float, magnitude);
    significand = hn::Or(hn::And(source, hn::Set(d, 0x7FFFFFu)), hn::Set(d, 0x800000u));
    significand = hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(d)), significand);
  } else {
    // Exponent field 0 counts as 1 without the leading bit; subtracting the field less one leaves
    // that bit elsewhere.
    exponent = hn::Max(exponent, hn::Set(di, 1));
    significand =
        hn::Sub(magnitude, hn::BitCast(d, hn::ShiftLeft<23>(hn::Sub(exponent, hn::Set(di, 1)))));
  }

  const VI32 field = hn::Add(exponent, hn::Set(di, p.bias - 127));
  const VI32 field_1 = hn::Max(field, hn::Set(di, 1));
  const V32 fixed =
      hn::Add(significand, hn::BitCast(d, hn::ShiftLeft<23>(hn::Sub(field_1, hn::Set(di, 1)))));
  // From a shift of 26 on, nearest and directed results no longer change; a 32-bit random word
  // reaches 56 bits down.
  const int longest = kClass == RoundingClass::stochastic ? 63 : 26;
  const V32 shift =
      hn::BitCast(d, hn::Min(hn::Add(hn::Sub(field_1, field), hn::Set(di, 23 - p.mantissa_bits)),
                             hn::Set(di, longest)));
  V32 code;
  if (kClass == RoundingClass::stochastic) {
    code = stochastic_code(d, p, fixed, shift, random);
  } else {
    code = hn::Shr(hn::Add(fixed, rounding_addend<kClass>(d, p, bits, significand, shift)), shift);
  }
  if (kDeep && p.lowest_code != 0) {
    const V32 lowest = hn::Set(d, p.lowest_code);
    code = hn::Sub(hn::Max(code, lowest), lowest);
  }

  const auto overflow = hn::Gt(code, hn::Set(d, p.max_finite_code));
  if (kClass == RoundingClass::directed) {
    const auto negative = hn::Ne(sign, hn::Zero(d));
    V32 limit =
        hn::IfThenElse(negative, hn::Set(d, p.overflow_negative), hn::Set(d, p.overflow_positive));
    limit = hn::IfThenElse(hn::Eq(magnitude, hn::Set(d, 0x7F800000u)), hn::Set(d, p.infinity_code),
                           limit);
    code = hn::IfThenElse(overflow, limit, code);
  } else {
    code = hn::IfThenElse(overflow, hn::Set(d, p.infinity_code), code);
  }

  const auto is_nan =
      hn::RebindMask(d, hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7F800000)));
  if (HWY_UNLIKELY(!hn::AllFalse(d, is_nan))) {
    const V32 payload = hn::And(hn::ShiftRightSame(magnitude, 23 - p.mantissa_bits),
                                hn::Set(d, p.nan_payload_mask));
    const V32 low = hn::IfThenElse(hn::Eq(payload, hn::Zero(d)), hn::Set(d, p.nan_quiet), payload);
    code = hn::IfThenElse(is_nan, hn::Or(low, hn::Set(d, p.nan_base)), code);
  }
  if (HWY_UNLIKELY(p.rare)) return patch_rare(d, p, bits, code, is_nan);
  return hn::Or(code, hn::ShiftRightSame(sign, p.sign_shift));
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
