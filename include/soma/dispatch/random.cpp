// soma::dispatch: the random family, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/random.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/random/random-inl.hpp>

#ifndef SOMA_DISPATCH_RANDOM_FAMILY
#define SOMA_DISPATCH_RANDOM_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct RandomFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct RandomFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) { kernels.random = HWY_NAMESPACE::random_kernel; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_random(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, RandomFamily>(target, kernels);
}
#endif
