// soma::dispatch: the embedding family, for every target.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/embedding.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/embedding/embedding-inl.hpp>

#ifndef SOMA_DISPATCH_EMBEDDING_FAMILY
#define SOMA_DISPATCH_EMBEDDING_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct EmbeddingFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct EmbeddingFamily<HWY_TARGET> {
  static void fill(Kernels& kernels) { kernels.embedding = HWY_NAMESPACE::embedding_kernels; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE
void soma::dispatch::fill_embedding(std::int64_t target, Kernels& kernels) {
  fill_for<HWY_TARGETS, EmbeddingFamily>(target, kernels);
}
#endif
