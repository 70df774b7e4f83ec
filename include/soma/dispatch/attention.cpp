// soma::dispatch: the attention family, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/attention/attention-inl.hpp>

#ifndef SOMA_DISPATCH_ATTENTION_FAMILY
#define SOMA_DISPATCH_ATTENTION_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct AttentionFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct AttentionFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) { kernels.attention = HWY_NAMESPACE::attention_kernels; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_attention(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, AttentionFamily>(target, kernels);
}
#endif
