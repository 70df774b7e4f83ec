// soma::dispatch: the convert family, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/convert/convert-inl.hpp>

#ifndef SOMA_DISPATCH_CONVERT_FAMILY
#define SOMA_DISPATCH_CONVERT_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct ConvertFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct ConvertFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) { kernels.convert = HWY_NAMESPACE::convert_kernel; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_convert(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, ConvertFamily>(target, kernels);
}
#endif
