// soma::dispatch: the gemm family, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/gemm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/gemm/gemm-inl.hpp>

#ifndef SOMA_DISPATCH_GEMM_FAMILY
#define SOMA_DISPATCH_GEMM_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct GemmFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct GemmFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) { kernels.gemm = HWY_NAMESPACE::gemm_kernels; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_gemm(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, GemmFamily>(target, kernels);
}
#endif
