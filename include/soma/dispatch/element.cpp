// soma::dispatch: the element family, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/element.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/element/element-inl.hpp>

#ifndef SOMA_DISPATCH_ELEMENT_FAMILY
#define SOMA_DISPATCH_ELEMENT_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct ElementFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct ElementFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) { kernels.element = HWY_NAMESPACE::element_kernels; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_element(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, ElementFamily>(target, kernels);
}
#endif
