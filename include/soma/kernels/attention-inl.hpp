// The attention family of the kernel table.

#if defined(SOMA_KERNELS_ATTENTION_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_INL_HPP
#undef SOMA_KERNELS_ATTENTION_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention_backward-inl.hpp>
#include <soma/kernels/attention_forward-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {

// Keys need no room of their own: they pass in blocks.
static inline std::size_t attention_workspace_bytes(std::size_t queries, std::size_t,
                                                    std::size_t width) noexcept {
  Carver forward(nullptr), backward(nullptr);
  ForwardSpace(forward, queries, width);
  BackwardSpace(backward, queries, width);
  return (std::max)(forward.used(), backward.used());
}

static constexpr AttentionKernels attention_kernels{
    attention_forward_kernel, attention_backward_kernel, attention_workspace_bytes};

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
