#pragma once
// The targets for which the dispatched units are compiled. Each unit includes this header before
// Highway.
//
// SSSE3 and AVX3_DL are left out: no kernel is faster on them than on SSE4 and AVX3, and every
// target costs build time. If the compiler's flags make one of them the baseline, it stays.
//
// SOMA_TARGETS, a mask of Highway's numbers such as (HWY_AVX2 | HWY_AVX3), leaves out all targets
// except these and the baseline. CMake's setting of the same name defines it.

#include <soma/base/config.hpp>

#if defined(SOMA_TARGETS) && defined(__x86_64__)
#if defined(__AVX512VBMI2__) && defined(__VAES__)
#define SOMA_BASELINE_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL)
#elif defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define SOMA_BASELINE_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3)
#elif defined(__AVX2__)
#define SOMA_BASELINE_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2)
#elif defined(__SSE4_2__)
#define SOMA_BASELINE_TARGETS (HWY_SSSE3 | HWY_SSE4)
#elif defined(__SSSE3__)
#define SOMA_BASELINE_TARGETS HWY_SSSE3
#else
#define SOMA_BASELINE_TARGETS 0
#endif
#define HWY_DISABLED_TARGETS (~(SOMA_TARGETS | SOMA_BASELINE_TARGETS))
#elif !defined(HWY_DISABLED_TARGETS) && defined(__x86_64__) && !defined(__SSSE3__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
