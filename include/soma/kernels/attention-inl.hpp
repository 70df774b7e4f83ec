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
#include <soma/kernels/attention_one_query-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {

static inline void attention_forward_kernel(const AttentionArgs& args) noexcept {
  if (args.queries == 0) return;
  if (args.keys != 0)
    return args.queries == 1 ? OneQuery(args).forward() : AttentionForward(args).run();
  RowWriter writer(args.out);
  ChunkBuffer buffer;
  write_zeros(writer, args.queries, args.width, buffer);
  if (args.log_sum_exp != nullptr) std::fill_n(args.log_sum_exp, args.queries, minus_infinity);
}

static inline void attention_backward_kernel(const AttentionArgs& args) noexcept {
  if (args.queries != 0 && args.keys != 0)
    return args.queries == 1 ? OneQuery(args).backward() : AttentionBackward(args).run();
  RowWriter dq(args.dq), dk(args.dk), dv(args.dv);
  ChunkBuffer buffer;
  write_zeros(dq, args.queries, args.width, buffer);
  write_zeros(dk, args.keys, args.width, buffer);
  write_zeros(dv, args.keys, args.width, buffer);
}

// Enough for fewer queries, too. Keys need no room of their own: they pass in blocks.
static inline std::size_t attention_workspace_bytes(std::size_t queries, std::size_t,
                                                    std::size_t width) noexcept {
  Carver one(nullptr), forward(nullptr), backward(nullptr);
  OneQuerySpace(one, width);
  if (queries <= 1) return one.used();
  ForwardSpace(forward, queries, width);
  BackwardSpace(backward, queries, width);
  return (std::max)({one.used(), forward.used(), backward.used()});
}

static constexpr AttentionKernels attention_kernels{
    attention_forward_kernel, attention_backward_kernel, attention_workspace_bytes};

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
