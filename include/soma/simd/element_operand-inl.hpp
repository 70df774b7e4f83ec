// Multiply-adds with one number in memory for all lanes. An AVX-512 instruction can load that
// number itself (an embedded broadcast), which saves an instruction. Compilers use this only if a
// number is used once, so this header has the instructions as inline assembly.

#if defined(SOMA_SIMD_ELEMENT_OPERAND_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_ELEMENT_OPERAND_INL_HPP
#undef SOMA_SIMD_ELEMENT_OPERAND_INL_HPP
#else
#define SOMA_SIMD_ELEMENT_OPERAND_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/simd/bf16_dot-inl.hpp>

#include <hwy/highway.h>

namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

// A float in memory: an fp32 number, or two bf16 numbers.
using ElementPlace [[gnu::may_alias]] = const float;

// AVX-512 instructions have such operands. The bf16 dot product is one of them.
#define SOMA_HAS_ELEMENT_OPERANDS SOMA_HAS_BF16_DOT
inline constexpr bool has_element_operands = SOMA_HAS_ELEMENT_OPERANDS;

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE

#if SOMA_HAS_ELEMENT_OPERANDS
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

// *a b + sum in each of 16 lanes, rounded once.
template <class V>
HWY_INLINE V multiply_add_element(ElementPlace* a, V b, V sum) {
  asm("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(b.raw), "m"(*a));
  return sum;
}
// As dot_pairs().
template <class V>
HWY_INLINE V dot_element_pairs(ElementPlace* a, V b, V sum) {
  asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(b.raw), "m"(*a));
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
