// Decoding in vector lanes: the function of numeric/codec.hpp's decode(), codes in u32 lanes to
// fp32 bits in u32 lanes.

#if defined(SOMA_SIMD_DECODE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_DECODE_INL_HPP
#undef SOMA_SIMD_DECODE_INL_HPP
#else
#define SOMA_SIMD_DECODE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/simd/codec_params.hpp>

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 2^exponent, for -149 to 127.
template <class DI32>
HWY_INLINE hn::Vec<hn::RebindToFloat<DI32>> power_of_two(DI32 di, hn::Vec<DI32> exponent) {
  const hn::RebindToFloat<DI32> df;
  const auto normal =
      hn::ShiftLeft<23>(hn::Add(hn::Max(exponent, hn::Set(di, -126)), hn::Set(di, 127)));
  const auto place =
      hn::Min(hn::Max(hn::Add(exponent, hn::Set(di, 149)), hn::Zero(di)), hn::Set(di, 22));
  const auto subnormal = hn::Shl(hn::Set(di, 1), place);
  return hn::BitCast(df, hn::IfThenElse(hn::Lt(exponent, hn::Set(di, -126)), subnormal, normal));
}

// The rest of decode_lanes, where params.rare is set.
template <class D32, class V32 = hn::Vec<D32>>
HWY_NOINLINE static V32 patch_rare_decoded(D32 d, const CodecParams& p, V32 code, V32 bits) {
  const V32 magnitude = hn::And(code, hn::Set(d, p.magnitude_mask));
  if (p.flush_subnormals) {
    const auto subnormal = hn::Lt(magnitude, hn::Set(d, 1u << p.mantissa_bits));
    const V32 zero = hn::And(bits, hn::Set(d, p.nan_is_negative_zero ? 0u : 0x80000000u));
    bits = hn::IfThenElse(subnormal, zero, bits);
  }
  if (p.nan_is_negative_zero) {
    const V32 all = hn::And(code, hn::Set(d, p.magnitude_mask | p.sign_mask));
    bits = hn::IfThenElse(hn::Eq(all, hn::Set(d, p.sign_mask)), hn::Set(d, 0x7FC00000u), bits);
  }
  return bits;
}

template <bool kDeep, class D32, class V32 = hn::Vec<D32>>
HWY_INLINE V32 decode_lanes(D32 d, const CodecParams& p, V32 code) {
  const hn::RebindToSigned<D32> di;
  const hn::RebindToFloat<D32> df;
  const V32 magnitude = hn::And(code, hn::Set(d, p.magnitude_mask));
  const V32 sign = hn::ShiftLeftSame(hn::And(code, hn::Set(d, p.sign_mask)), p.sign_shift);
  const int unused = 23 - p.mantissa_bits;

  V32 bits;
  if (kDeep) {
    // significand * 2^unit as a product: exact, because every value of a format is an fp32 value.
    const V32 counted = hn::Add(magnitude, hn::Set(d, p.lowest_code));
    const auto field = hn::BitCast(di, hn::ShiftRightSame(counted, p.mantissa_bits));
    const auto mantissa =
        hn::BitCast(di, hn::And(counted, hn::Set(d, (1u << p.mantissa_bits) - 1)));
    const auto leading =
        hn::IfThenElseZero(hn::Gt(field, hn::Zero(di)), hn::Set(di, 1 << p.mantissa_bits));
    const auto unit =
        hn::Sub(hn::Max(field, hn::Set(di, 1)), hn::Set(di, p.bias + p.mantissa_bits));
    const auto exact =
        hn::Mul(hn::ConvertTo(df, hn::Or(mantissa, leading)), power_of_two(di, unit));
    bits = hn::BitCast(d, exact);
  } else {
    // Normal numbers: shifts the fields and changes the exponent's bias. A smaller magnitude is an
    // integer times the spacing.
    const V32 rebase = hn::Set(d, static_cast<std::uint32_t>(127 - p.bias) << 23);
    const V32 normal = hn::Add(hn::ShiftLeftSame(magnitude, unused), rebase);
    const float spacing = detail::two_to(1 - p.bias - p.mantissa_bits);
    const auto integer = hn::ConvertTo(df, hn::BitCast(di, magnitude));
    const V32 subnormal = hn::BitCast(d, hn::Mul(integer, hn::Set(df, spacing)));
    bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 1u << p.mantissa_bits)), subnormal, normal);
  }
  const auto special = hn::Gt(magnitude, hn::Set(d, p.max_finite_code));
  if (HWY_UNLIKELY(!hn::AllFalse(d, special))) {
    // The payload mask belongs to NaN codes; a NaN without payload bits becomes fp32's quiet NaN.
    const V32 payload =
        hn::ShiftLeftSame(hn::And(magnitude, hn::Set(d, p.nan_payload_mask)), unused);
    const V32 quiet = hn::Set(d, p.nan_payload_mask == 0 ? 0x400000u : 0u);
    bits = hn::IfThenElse(special, hn::Or(hn::Set(d, 0x7F800000u), hn::Or(payload, quiet)), bits);
  }
  bits = hn::Or(bits, sign);
  if (HWY_UNLIKELY(p.rare)) bits = patch_rare_decoded(d, p, code, bits);
  return bits;
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
