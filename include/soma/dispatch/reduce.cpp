// soma::dispatch: the reduce family, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/reduce/reduce-inl.hpp>

#ifndef SOMA_DISPATCH_REDUCE_FAMILY
#define SOMA_DISPATCH_REDUCE_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct ReduceFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct ReduceFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) { kernels.reduce = HWY_NAMESPACE::reduce_kernels; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_reduce(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, ReduceFamily>(target, kernels);
}
#endif
