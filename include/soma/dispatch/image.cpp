// soma::dispatch: the image family, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/image.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/image/image-inl.hpp>

#ifndef SOMA_DISPATCH_IMAGE_FAMILY
#define SOMA_DISPATCH_IMAGE_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct ImageFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct ImageFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) { kernels.image = HWY_NAMESPACE::image_kernels; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_image(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, ImageFamily>(target, kernels);
}
#endif
