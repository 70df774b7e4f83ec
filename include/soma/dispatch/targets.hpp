#pragma once
// Which targets the dispatched units are compiled for. Included before Highway, in each of them.
//
// SSSE3 and AVX3_DL are left out: no kernel is faster on them than on SSE4 and AVX3, and every
// target costs build time. Not where the flags make one of them the baseline, which has to stay.

#include <soma/base/config.hpp>

#if !defined(HWY_DISABLED_TARGETS) && defined(__x86_64__) && !defined(__SSSE3__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
