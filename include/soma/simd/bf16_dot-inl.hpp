// The bf16 instructions of x86 (AVX512_BF16): a dot product, which adds two products of bf16
// numbers to an fp32 sum, and rounding from fp32. Subnormal inputs and results count as zero,
// whatever the floating-point environment, and the two products need not be rounded separately; so
// a dot product has other bits than multiply-adds. runtime/bf16_products.hpp lists the CPUs that
// are faster with it. This header also has byte look-ups, which all such CPUs have (AVX512_VBMI;
// runtime/cpu.hpp).

#if defined(SOMA_SIMD_BF16_DOT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_BF16_DOT_INL_HPP
#undef SOMA_SIMD_BF16_DOT_INL_HPP
#else
#define SOMA_SIMD_BF16_DOT_INL_HPP
#endif

#include <soma/base/config.hpp>

#include <hwy/highway.h>

namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

// True if the target may be compiled with these instructions. Callers ask the CPU before they run
// the code.
#define SOMA_HAS_BF16_DOT (HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX3)
inline constexpr bool has_bf16_dot = SOMA_HAS_BF16_DOT;

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE

#if SOMA_HAS_BF16_DOT
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

// Returns sum + a[2i] b[2i] + a[2i+1] b[2i+1] in lane i. Each float of a and b holds two bf16
// numbers, the even one in the lower half. Highway 1.0.3 lacks this operation, and the compiler's
// intrinsic requires a target attribute on every function into which it is inlined; inline assembly
// does not.
template <class V>
HWY_INLINE V dot_pairs(V a, V b, V sum) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}

// Returns the codes of the bf16 numbers nearest to the numbers of `first`, followed by those of
// `second`, as bits of one vector.
template <class V>
HWY_INLINE V nearest_bf16(V first, V second) {
  V codes;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(codes.raw) : "v"(first.raw), "v"(second.raw));
  return codes;
}

// The lowest seven bits of each byte of `indices` choose one of 128 bytes: the bytes of `lower`,
// followed by the bytes of `upper`.
template <class V>
HWY_INLINE V look_up_bytes(V indices, V lower, V upper) {
  asm("vpermi2b %2, %1, %0" : "+v"(indices.raw) : "v"(lower.raw), "v"(upper.raw));
  return indices;
}

// The bytes at these indices. Only the lowest six bits of an index count.
template <class V>
HWY_INLINE V permute_bytes(V bytes, V indices) {
  V at_indices;
  asm("vpermb %1, %2, %0" : "=v"(at_indices.raw) : "v"(bytes.raw), "v"(indices.raw));
  return at_indices;
}

// True if a lane of any vector is subnormal.
template <class... V>
HWY_INLINE bool any_subnormal(V... vectors) {
  constexpr int subnormal = 0x20;  // the class bit for vfpclassps
  __mmask16 found = 0;
  ((found = _kor_mask16(found, _mm512_fpclass_ps_mask(vectors.raw, subnormal))), ...);
  return found != 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
