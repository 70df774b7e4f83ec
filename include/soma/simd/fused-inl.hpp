// Computes a * b + c, rounded once, on every target. Targets without such an instruction compute it
// in double and round to odd, as exact_fused(float) does (numeric/impl/fused.ipp has the reason): a
// vector takes some 30 instructions. WebAssembly's relaxed SIMD has an instruction that is fused
// where the machine's is: target_fuses() asks.

#if defined(SOMA_SIMD_FUSED_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_FUSED_INL_HPP
#undef SOMA_SIMD_FUSED_INL_HPP
#else
#define SOMA_SIMD_FUSED_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/numeric/fused.hpp>

#include <hwy/highway.h>

#include <cstddef>

#if HWY_ARCH_WASM
#include <wasm_simd128.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// In Highway, better targets have lower numbers; AVX2 is the first x86 target with FMA, and AArch64
// always has it.
#if HWY_ARCH_X86
inline constexpr bool has_fused_multiply_add = HWY_TARGET <= HWY_AVX2;
#elif defined(__aarch64__)
inline constexpr bool has_fused_multiply_add = HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128;
#elif defined(__wasm_relaxed_simd__)
inline constexpr bool has_fused_multiply_add = true;
#else
inline constexpr bool has_fused_multiply_add = false;
#endif

// a * b + c by the target's quickest instructions, which round once or twice.
template <class V>
HWY_INLINE V multiply_add(V a, V b, V c) {
#if defined(__wasm_relaxed_simd__)
  return V(wasm_f32x4_relaxed_madd(a.raw, b.raw, c.raw));
#else
  return hn::MulAdd(a, b, c);
#endif
}

// False where relaxed SIMD rounds twice. (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24, which the rounded
// product has lost.
HWY_INLINE HWY_MAYBE_UNUSED bool target_fuses() {
  if constexpr (!has_fused_multiply_add) return false;
  const hn::CappedTag<float, 4> d;
  volatile float factor = 1.0f + 0x1p-12f;
  const auto x = hn::Set(d, factor), y = hn::Set(d, -1.0f - 0x1p-11f);
  return hn::GetLane(multiply_add(x, x, y)) == 0x1p-24f;
}

#if HWY_TARGET != HWY_SCALAR && HWY_HAVE_FLOAT64

// a * b + c in double, rounded to odd.
template <class DD, class V = hn::Vec<DD>>
HWY_INLINE V fused_to_odd(DD d, V a, V b, V c) {
  const hn::RebindToSigned<DD> di;
  const V product = hn::Mul(a, b);  // exact
  const V sum = hn::Add(product, c), part = hn::Sub(sum, product);
  const V lost = hn::Add(hn::Sub(product, hn::Sub(sum, part)), hn::Sub(c, part));
  const auto bits = hn::BitCast(di, sum), one = hn::Set(di, 1);
  // Away from zero where `lost` has the sum's sign, else towards it; only where the sum is even and
  // something is lost. (NaN is lost where the sum is infinite or NaN.)
  const auto step = hn::Or(hn::BroadcastSignBit(hn::BitCast(di, hn::Xor(lost, sum))), one);
  const auto even = hn::Sub(hn::And(bits, one), one);
  const auto inexact = hn::BitCast(di, hn::VecFromMask(d, hn::Gt(hn::Abs(lost), hn::Zero(d))));
  return hn::BitCast(d, hn::Add(bits, hn::And(step, hn::And(even, inexact))));
}

template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V exact_fused_lanes(DF d, V a, V b, V c) {
  if constexpr (hn::MaxLanes(DF()) * sizeof(double) <= 16) {
    const hn::Rebind<double, DF> dd;
    return hn::DemoteTo(
        d, fused_to_odd(dd, hn::PromoteTo(dd, a), hn::PromoteTo(dd, b), hn::PromoteTo(dd, c)));
  } else {
    const hn::Half<DF> half;
    const hn::Repartition<double, DF> dd;
    const auto lower = fused_to_odd(dd, hn::PromoteTo(dd, hn::LowerHalf(half, a)),
                                    hn::PromoteTo(dd, hn::LowerHalf(half, b)),
                                    hn::PromoteTo(dd, hn::LowerHalf(half, c)));
    const auto upper = fused_to_odd(dd, hn::PromoteTo(dd, hn::UpperHalf(half, a)),
                                    hn::PromoteTo(dd, hn::UpperHalf(half, b)),
                                    hn::PromoteTo(dd, hn::UpperHalf(half, c)));
    return hn::Combine(d, hn::DemoteTo(half, upper), hn::DemoteTo(half, lower));
  }
}

#elif HWY_ARCH_WASM

// Highway 1.0.3 has no vectors of double for WebAssembly, which has them.
HWY_INLINE v128_t fused_to_odd(v128_t a, v128_t b, v128_t c) {
  const v128_t product = wasm_f64x2_mul(a, b), sum = wasm_f64x2_add(product, c);
  const v128_t part = wasm_f64x2_sub(sum, product);
  const v128_t lost =
      wasm_f64x2_add(wasm_f64x2_sub(product, wasm_f64x2_sub(sum, part)), wasm_f64x2_sub(c, part));
  const v128_t one = wasm_i64x2_splat(1);
  const v128_t step = wasm_v128_or(wasm_i64x2_shr(wasm_v128_xor(lost, sum), 63), one);
  const v128_t even = wasm_i64x2_sub(wasm_v128_and(sum, one), one);
  const v128_t inexact = wasm_f64x2_gt(wasm_f64x2_abs(lost), wasm_f64x2_splat(0));
  return wasm_i64x2_add(sum, wasm_v128_and(step, wasm_v128_and(even, inexact)));
}

template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V exact_fused_lanes(DF d, V a, V b, V c) {
  const auto upper = [](v128_t x) { return wasm_i64x2_shuffle(x, x, 1, 1); };
  const auto wide = [](v128_t x) { return wasm_f64x2_promote_low_f32x4(x); };
  const v128_t x = a.raw, y = b.raw, z = c.raw;
  const v128_t low = wasm_f32x4_demote_f64x2_zero(fused_to_odd(wide(x), wide(y), wide(z)));
  if constexpr (hn::MaxLanes(DF()) <= 2) return V(low);
  const v128_t high =
      wasm_f32x4_demote_f64x2_zero(fused_to_odd(wide(upper(x)), wide(upper(y)), wide(upper(z))));
  return V(wasm_i64x2_shuffle(low, high, 0, 2));
}

#else

template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V exact_fused_lanes(DF d, V a, V b, V c) {
  constexpr std::size_t lanes = hn::MaxLanes(DF());
  alignas(64) float x[lanes], y[lanes], z[lanes];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (std::size_t i = 0; i < lanes; ++i) x[i] = detail::exact_fused(x[i], y[i], z[i]);
  return hn::Load(d, x);
}

#endif

// a * b + c, rounded once.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V fused(DF d, V a, V b, V c) {
  if constexpr (has_fused_multiply_add)
    return multiply_add(a, b, c);
  else
    return exact_fused_lanes(d, a, b, c);
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
