// soma::dispatch: the engines of the NeuronCore model, for every target.

#include <soma/dispatch/engine.hpp>
#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/engine.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/neuroncore/engines/engine-inl.hpp>

#ifndef SOMA_DISPATCH_ENGINE_FAMILY
#define SOMA_DISPATCH_ENGINE_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct EngineFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct EngineFamily<HWY_TARGET> {
  static void fill(const neuroncore::EngineKernels*& kernels) {
    kernels = &HWY_NAMESPACE::engine_kernels;
  }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
const soma::neuroncore::EngineKernels& soma::dispatch::engine_kernels(std::string_view target) {
  const neuroncore::EngineKernels* kernels = nullptr;
  for (std::int64_t left = HWY_TARGETS; left != 0; left &= left - 1)
    if (target == hwy::TargetName(left & -left))
      fill_for<HWY_TARGETS, EngineFamily>(left & -left, kernels);
  return *kernels;
}
#endif
