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

// The codes of formats, the counters of draws and the contents of files are little-endian words.
#if defined(SOMA_TEST_BIG_ENDIAN) || \
    (defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
#error "soma needs a little-endian machine: codes, draws and files are little-endian words."
#endif

// The x87 unit computes in 80 bits and rounds when it stores.
#if defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ == 2 || __FLT_EVAL_METHOD__ < 0)
#error "soma's results are exact: on 32-bit x86 compile with -msse2 -mfpmath=sse."
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

// 1 where the compiler reads GNU's inline assembly and has the builtins of g++, as clang has them.
// Elsewhere (MSVC, which nobody has tried) code takes an intrinsic or does without. A program may
// say 0 itself.
#if !defined(SOMA_GNU_ASSEMBLY)
#if defined(__GNUC__) || defined(__clang__)
#define SOMA_GNU_ASSEMBLY 1
#else
#define SOMA_GNU_ASSEMBLY 0
#endif
#endif

// 1 when this unit may throw. fail() (base/error.hpp) aborts otherwise.
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define SOMA_HAS_EXCEPTIONS 1
#else
#define SOMA_HAS_EXCEPTIONS 0
#endif

// How this unit uses soma:
//   SOMA_DISPATCH      all functions and kernels are in the library soma::dispatch
//   SOMA_WHOLE_TABLE   header-only, and contexts hold tables of all kernels and operators (api.hpp,
//                      whole.hpp): units that include api.hpp call what another unit compiled
//   neither            header-only, and the tables are types: the unit compiles only what it uses
#if defined(SOMA_DISPATCH)
#undef SOMA_WHOLE_TABLE
#define SOMA_WHOLE_TABLE 1
#elif !defined(SOMA_WHOLE_TABLE)
#define SOMA_WHOLE_TABLE 0
#endif

// SOMA_NAMESPACE opens soma and an inline namespace in it, which names version and way:
// soma::v0_3 with SOMA_DISPATCH, soma::v0_3_header with a whole table, soma::v0_3_header_AVX2 where
// a unit has kernels of its own. Programs write soma:: and nothing else, but the linker sees the
// full names. So two versions in one process share no symbol; and units that use soma in different
// ways do not link if they exchange soma's types, which would be against the one-definition rule.
// Containers for debugging (-D_GLIBCXX_DEBUG) have another layout: the library must be built with
// them, too. Forward declarations: soma/forward.hpp.
#if defined(_GLIBCXX_DEBUG)
#define SOMA_CONTAINERS _debug_containers
#else
#define SOMA_CONTAINERS
#endif
#if defined(SOMA_DISPATCH)
#define SOMA_WAY
#elif SOMA_WHOLE_TABLE
#define SOMA_WAY _header
#else
#include <hwy/detect_targets.h>  // macros only
#if HWY_STATIC_TARGET == HWY_AVX2
#define SOMA_WAY _header_AVX2
#elif HWY_STATIC_TARGET == HWY_AVX3
#define SOMA_WAY _header_AVX3
#elif HWY_STATIC_TARGET == HWY_AVX3_DL
#define SOMA_WAY _header_AVX3_DL
#elif defined(HWY_AVX3_ZEN4) && HWY_STATIC_TARGET == HWY_AVX3_ZEN4
#define SOMA_WAY _header_AVX3_ZEN4
#elif defined(HWY_AVX3_SPR) && HWY_STATIC_TARGET == HWY_AVX3_SPR
#define SOMA_WAY _header_AVX3_SPR
#elif defined(HWY_AVX10_2) && HWY_STATIC_TARGET == HWY_AVX10_2
#define SOMA_WAY _header_AVX10_2
#elif HWY_STATIC_TARGET == HWY_SSE4
#define SOMA_WAY _header_SSE4
#elif HWY_STATIC_TARGET == HWY_SSSE3
#define SOMA_WAY _header_SSSE3
#elif defined(HWY_SSE2) && HWY_STATIC_TARGET == HWY_SSE2
#define SOMA_WAY _header_SSE2
#elif HWY_STATIC_TARGET == HWY_NEON
#define SOMA_WAY _header_NEON
#elif defined(HWY_NEON_WITHOUT_AES) && HWY_STATIC_TARGET == HWY_NEON_WITHOUT_AES
#define SOMA_WAY _header_NEON_WITHOUT_AES
#elif defined(HWY_NEON_BF16) && HWY_STATIC_TARGET == HWY_NEON_BF16
#define SOMA_WAY _header_NEON_BF16
#elif HWY_STATIC_TARGET == HWY_SCALAR || HWY_STATIC_TARGET == HWY_EMU128
#define SOMA_WAY _header_baseline
#else
#define SOMA_WAY _header_other
#endif
#endif
#define SOMA_PASTE_NAMES(major, minor, way, containers) v##major##_##minor##way##containers
#define SOMA_EXPAND_NAMES(major, minor, way, containers) \
  SOMA_PASTE_NAMES(major, minor, way, containers)
#define SOMA_INNER_NAMESPACE \
  SOMA_EXPAND_NAMES(SOMA_VERSION_MAJOR, SOMA_VERSION_MINOR, SOMA_WAY, SOMA_CONTAINERS)
#define SOMA_NAMESPACE soma::inline SOMA_INNER_NAMESPACE

// Marks the definition of a function that is not a template, in impl/*.ipp. With soma::dispatch the
// library compiles these files, once; without it every unit that includes a header compiles them.
#ifdef SOMA_DISPATCH
#define SOMA_INLINE
#else
#define SOMA_INLINE inline
#endif

namespace SOMA_NAMESPACE {

struct Version {
  int major, minor, patch;
};

inline constexpr Version version{SOMA_VERSION_MAJOR, SOMA_VERSION_MINOR, SOMA_VERSION_PATCH};

}  // namespace SOMA_NAMESPACE
