// A kernel to copy from: y[i] = scale * x[i] + y[i] over a run of floats. Each line that a kernel
// file cannot do without is explained. CONTRIBUTING.md says which files a new kernel takes.

// Highway compiles this file once for each target (SSE4, AVX2, AVX-512, ...), by including the unit
// again and again with another HWY_TARGET. `#pragma once` would let it in once. This guard lets
// it in once for each pass: HWY_TARGET_TOGGLE is defined in every second pass. The macro is named
// after the file's path.
#if defined(SOMA_KERNELS_SKELETON_SKELETON_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_SKELETON_SKELETON_INL_HPP
#undef SOMA_KERNELS_SKELETON_SKELETON_INL_HPP
#else
#define SOMA_KERNELS_SKELETON_SKELETON_INL_HPP
#endif

// config.hpp comes before Highway: it is the one place that sets Highway's macros.
#include <soma/base/config.hpp>
// map_vectors() and its relatives: loops over runs of any length.
#include <soma/kernels/rows/vector_loops-inl.hpp>
// The arguments are a plain struct in a header without Highway, so that callers compile once.
#include "skeleton_args.hpp"

#include <hwy/highway.h>

// From here on the compiler may use the target's instructions: function attributes, no -m flags.
// Functions of the standard library must not be first used in here, because the linker could keep
// the copy with the wider instructions for the whole program.
HWY_BEFORE_NAMESPACE();
namespace soma {
// A namespace for each target, so that their functions do not collide.
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `static`: units of a program with other compiler flags keep copies of their own. `noexcept`: a
// kernel neither allocates nor throws; its caller has checked every size and pointer.
static inline void skeleton_scale(const SkeletonArgs& args) noexcept {
  // Floats is a vector of at most 16 lanes, whatever the target has.
  const Floats d;
  const auto scale = hn::Set(d, args.scale);
  // The function is called with whole vectors. What is left behind the last whole vector goes
  // through the same code in a padded copy, so an element's bits do not depend on its place.
  map_vectors<2>({args.x, args.y}, args.y, args.count, [&](auto x, auto y) {
    // MulAdd rounds once where the target has fused multiply-add. Where bits must be equal on
    // targets without it too, write Mul and Add, and keep the compiler from joining them
    // (docs/numerics.md).
    return hn::MulAdd(scale, x, y);
  });
}

// The entry of the kernel table: a plain function pointer. One such constant for each family.
static constexpr SkeletonKernels skeleton_kernels{.scale = skeleton_scale};

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif  // the guard for each target
