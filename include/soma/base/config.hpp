#pragma once
// Build configuration. Every header includes this one first. It alone sets HWY_* macros: Highway
// reads them once, at its first inclusion, so they must be set before.

#include <soma/base/version.hpp>

// soma's numbers are promised bit by bit. Fast-math lets a compiler drop NaNs and signed zeros,
// reassociate sums and start the program with subnormals flushed; no runtime guard can undo the
// first two. g++ defines a macro for the single flags too, clang only for the whole of fast-math.
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#error "soma refuses -ffast-math, -Ofast, -ffinite-math-only: its results are exact."
#error "Compile units that include soma without those flags; other units may keep them."
#elif defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error "soma refuses the parts of -ffast-math too: -funsafe-math-optimizations,"
#error "-fassociative-math, -freciprocal-math, -fno-signed-zeros: its results are exact."
#error "Compile units that include soma without those flags; other units may keep them."
#endif

#if !defined(__cplusplus) || \
    (__cplusplus < 202002L && (!defined(_MSVC_LANG) || _MSVC_LANG < 202002L))
#error "soma needs C++20: compile with -std=c++20 or newer."
#endif

// SSE4 and above would require AES and PCLMUL, which -march=x86-64-v3 or haswell do not imply:
// without this macro such flags select SSSE3. Nothing in soma uses those instructions.
#if !defined(HWY_DISABLE_PCLMUL_AES) && (defined(__x86_64__) || defined(__i386__)) && \
    !(defined(__AES__) && defined(__PCLMUL__))
#define HWY_DISABLE_PCLMUL_AES
#endif

// Highway 1.0.3 tests a misspelt macro and stops with "best baseline should be included in dynamic
// targets" where the flags allow AVX3_DL; wanting it by name works there and is harmless later.
#if !defined(HWY_WANT_AVX3_DL) && defined(__AVX512VBMI2__) && defined(__VAES__)
#define HWY_WANT_AVX3_DL
#endif

// The loops need the number of lanes at compile time. SVE does not fix that number; CPUs with SVE
// have NEON as well.
#if !defined(HWY_DISABLED_TARGETS) && defined(__aarch64__)
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

// Highway's debug assertions call hwy::Abort, which lives in its compiled library: without this, a
// program that includes soma and is built at -O0 or with a sanitizer would not link. Define it to 1
// (and link libhwy) to enable the assertions.
#if !defined(HWY_IS_DEBUG_BUILD)
#define HWY_IS_DEBUG_BUILD 0
#endif

// 1 when this unit may throw. SOMA_THROW (base/error.hpp) aborts otherwise.
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define SOMA_HAS_EXCEPTIONS 1
#else
#define SOMA_HAS_EXCEPTIONS 0
#endif

// Marks the definition of a function that is not a template, in impl/*.ipp. With soma::dispatch the
// library compiles these files, once; without it every unit that includes a header compiles them.
#ifdef SOMA_DISPATCH
#define SOMA_INLINE
#else
#define SOMA_INLINE inline
#endif
