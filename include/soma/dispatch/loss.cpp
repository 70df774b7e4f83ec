// soma::dispatch: the loss family, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/loss.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/loss/loss-inl.hpp>

#ifndef SOMA_DISPATCH_LOSS_FAMILY
#define SOMA_DISPATCH_LOSS_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct LossFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct LossFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) { kernels.loss = HWY_NAMESPACE::loss_kernels; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_loss(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, LossFamily>(target, kernels);
}
#endif
