// soma::dispatch: the norm family, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/norm/norm-inl.hpp>

#ifndef SOMA_DISPATCH_NORM_FAMILY
#define SOMA_DISPATCH_NORM_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct NormFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct NormFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) { kernels.norm = HWY_NAMESPACE::norm_kernels; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_norm(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, NormFamily>(target, kernels);
}
#endif
