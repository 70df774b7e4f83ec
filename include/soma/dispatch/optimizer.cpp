// soma::dispatch: the optimizer family, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/optimizer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/optimizer/optimizer-inl.hpp>

#ifndef SOMA_DISPATCH_OPTIMIZER_FAMILY
#define SOMA_DISPATCH_OPTIMIZER_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct OptimizerFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct OptimizerFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) { kernels.optimizer = HWY_NAMESPACE::optimizer_kernels; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_optimizer(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, OptimizerFamily>(target, kernels);
}
#endif
