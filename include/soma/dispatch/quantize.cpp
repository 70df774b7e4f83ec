// soma::dispatch: the quantize entry, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/quantize.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/quantize/expand-inl.hpp>
#include <soma/kernels/quantize/quantize-inl.hpp>
#include <soma/kernels/quantize/rotate-inl.hpp>

#ifndef SOMA_DISPATCH_QUANTIZE_FAMILY
#define SOMA_DISPATCH_QUANTIZE_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct QuantizeFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct QuantizeFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) {
    kernels.quantize = HWY_NAMESPACE::quantize_kernel;
    kernels.expand = HWY_NAMESPACE::expand_kernel;
    kernels.rotate = HWY_NAMESPACE::rotate_kernel;
  }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_quantize(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, QuantizeFamily>(target, kernels);
}
#endif
