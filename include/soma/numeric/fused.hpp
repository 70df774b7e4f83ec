#pragma once
// fused_multiply_add(a, b, c): a * b + c, rounded once to nearest even. std::fma promises the same,
// but some C libraries round twice (MinGW's); where neither the CPU has an instruction nor the
// library is known to be exact, soma computes it: float through double, double through integers.
// detail:: has those two under names of their own, for tests.

#include <soma/base/config.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

namespace detail {

// True if std::fma is one instruction, or a function of glibc, which is exact and finds out if the
// CPU has the instruction.
#if defined(__FMA__) || defined(__aarch64__) || defined(__FP_FAST_FMA) || defined(__GLIBC__)
inline constexpr bool std_fma_is_exact = true;
#else
inline constexpr bool std_fma_is_exact = false;
#endif

// Costs some 3 ns.
float exact_fused(float a, float b, float c);

// Costs some 20 ns.
double exact_fused(double a, double b, double c);

}  // namespace detail

inline float fused_multiply_add(float a, float b, float c) {
  if constexpr (detail::std_fma_is_exact)
    return std::fma(a, b, c);
  else
    return detail::exact_fused(a, b, c);
}

inline double fused_multiply_add(double a, double b, double c) {
  if constexpr (detail::std_fma_is_exact)
    return std::fma(a, b, c);
  else
    return detail::exact_fused(a, b, c);
}

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/numeric/impl/fused.ipp>
#endif
