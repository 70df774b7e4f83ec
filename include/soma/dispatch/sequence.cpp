// soma::dispatch: the sequence family, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/sequence.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/sequence/sequence-inl.hpp>

#ifndef SOMA_DISPATCH_SEQUENCE_FAMILY
#define SOMA_DISPATCH_SEQUENCE_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct SequenceFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct SequenceFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) { kernels.sequence = HWY_NAMESPACE::sequence_kernels; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_sequence(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, SequenceFamily>(target, kernels);
}
#endif
