// Computes a * b + c, rounded once, on every target. If a target has no such instruction, std::fma
// computes it one lane at a time, exact by definition: slow, but with the same bits.

#if defined(SOMA_SIMD_FUSED_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_FUSED_INL_HPP
#undef SOMA_SIMD_FUSED_INL_HPP
#else
#define SOMA_SIMD_FUSED_INL_HPP
#endif

#include <soma/base/config.hpp>

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>

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
#else
inline constexpr bool has_fused_multiply_add = false;
#endif

// x[i] = x[i] * y[i] + z[i]. It is not inlined, because each polynomial calls it many times.
HWY_NOINLINE HWY_MAYBE_UNUSED static void fused_one_by_one(float* x, const float* y, const float* z,
                                                           std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] = std::fma(x[i], y[i], z[i]);
}

// a * b + c, rounded once.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V fused(DF d, V a, V b, V c) {
  if constexpr (has_fused_multiply_add) {
    return hn::MulAdd(a, b, c);
  } else {
    alignas(64) float x[16], y[16], z[16];
    hn::Store(a, d, x);
    hn::Store(b, d, y);
    hn::Store(c, d, z);
    fused_one_by_one(x, y, z, hn::Lanes(d));
    return hn::Load(d, x);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
