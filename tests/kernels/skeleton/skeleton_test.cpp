// The skeleton kernel of CONTRIBUTING.md compiles for every target and gives the bits of the plain
// loop. In one file it does what soma/dispatch/ does with a unit for each family.

#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/skeleton/skeleton_test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "skeleton-inl.hpp"

#ifndef SOMA_TEST_SKELETON_FAMILY
#define SOMA_TEST_SKELETON_FAMILY
namespace soma_test {
template <std::int64_t target>
struct SkeletonFamily;
}
#endif

namespace soma_test {
template <>
struct SkeletonFamily<HWY_TARGET> {
  static void fill(soma::SkeletonKernels& kernels) {
    kernels = soma::HWY_NAMESPACE::skeleton_kernels;
  }
};
}  // namespace soma_test

#if HWY_ONCE

#include <soma/dispatch/family.hpp>

#include "catch.hpp"
#include "support/samples.hpp"

#include <cmath>
#include <cstring>
#include <vector>

TEST_CASE("the skeleton kernel has the plain loop's bits on every target", "[unit][kernels]") {
  int targets = 0;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;
    // Targets without fused multiply-add round twice; the plain loop below rounds once.
    if (target > HWY_AVX2 && (HWY_ARCH_X86 != 0)) continue;
    soma::SkeletonKernels kernels{};
    soma::dispatch::fill_for<HWY_TARGETS, soma_test::SkeletonFamily>(target, kernels);
    REQUIRE(kernels.scale != nullptr);
    ++targets;
    for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 100u}) {
      std::vector<float> x = soma_test::finite_floats(count), y(count, 0.3f), expected = y;
      for (std::size_t i = 0; i < count; ++i) expected[i] = std::fma(1.7f, x[i], expected[i]);
      kernels.scale({.scale = 1.7f, .x = x.data(), .y = y.data(), .count = count});
      CHECK((count == 0 || std::memcmp(y.data(), expected.data(), count * sizeof(float)) == 0));
    }
  }
  CHECK(targets > 0);
}

#endif
