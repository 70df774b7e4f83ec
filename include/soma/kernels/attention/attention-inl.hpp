// The attention family of the kernel table.

#if defined(SOMA_KERNELS_ATTENTION_ATTENTION_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_ATTENTION_INL_HPP
#undef SOMA_KERNELS_ATTENTION_ATTENTION_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_ATTENTION_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention/backward-inl.hpp>
#include <soma/kernels/attention/dots-inl.hpp>
#include <soma/kernels/attention/forward-inl.hpp>
#include <soma/kernels/attention/one_query-inl.hpp>
#include <soma/kernels/attention/tiles-inl.hpp>
#include <soma/kernels/attention/vectors-inl.hpp>
#include <soma/kernels/gemm/pack/bf16_pairs-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

// True if products of these operands use tiles, whatever the number of queries.
template <class... Operands>
static inline bool in_tiles(const AttentionArgs& args, const Operands&... operands) {
  return args.bf16_products == Bf16Products::tiles && args.keys >= tiled_keys &&
         ((PairSource::takes(operands) && operands.scale == 1) && ...);
}

static inline void attention_forward_kernel(const AttentionArgs& args) noexcept {
  if (args.queries == 0) return;
  if (args.keys != 0) {
#if SOMA_HAS_BF16_TILES
    if (in_tiles(args, args.q, args.k, args.v)) return AttentionForward<ForwardTiles>(args).run();
#endif
#if SOMA_HAS_BF16_DOT
    if (DotOperands::take(args, args.q, args.k, args.v))
      return AttentionForward<ForwardDots>(args).run();
#endif
    return args.queries == 1 ? OneQuery(args).forward()
                             : AttentionForward<ForwardVectors>(args).run();
  }
  MatrixWriter writer(args.out);
  ChunkBuffer buffer;
  write_zeros(writer, args.queries, args.width, buffer);
  if (args.log_sum_exp != nullptr) std::fill_n(args.log_sum_exp, args.queries, minus_infinity);
}

static inline void attention_backward_kernel(const AttentionArgs& args) noexcept {
  if (args.queries != 0 && args.keys != 0) {
#if SOMA_HAS_BF16_TILES
    if (in_tiles(args, args.q, args.k, args.v, args.dout))
      return AttentionBackward<BackwardTiles>(args).run();
#endif
#if SOMA_HAS_BF16_DOT
    if (DotOperands::take(args, args.q, args.k, args.v, args.dout))
      return AttentionBackward<BackwardDots>(args).run();
#endif
    return args.queries == 1 ? OneQuery(args).backward()
                             : AttentionBackward<BackwardVectors>(args).run();
  }
  MatrixWriter dq(args.dq), dk(args.dk), dv(args.dv);
  ChunkBuffer buffer;
  write_zeros(dq, args.queries, args.width, buffer);
  write_zeros(dk, args.keys, args.width, buffer);
  write_zeros(dv, args.keys, args.width, buffer);
}

// Enough for fewer queries and keys, too. Most room for keys is that of a block.
static inline std::size_t attention_workspace_bytes(const AttentionArgs& args) noexcept {
  Carver one(nullptr);
  OneQuerySpace(one, args.width);
  std::size_t most = one.used();
  if (args.queries > 1)
    most = (std::max)({most, AttentionForward<ForwardVectors>::workspace_bytes(args),
                       AttentionBackward<BackwardVectors>::workspace_bytes(args)});
#if SOMA_HAS_BF16_TILES
  if (in_tiles(args))
    most = (std::max)({most, AttentionForward<ForwardTiles>::workspace_bytes(args),
                       AttentionBackward<BackwardTiles>::workspace_bytes(args)});
#endif
#if SOMA_HAS_BF16_DOT
  if (args.bf16_products == Bf16Products::dot_instruction)  // of an odd width, too
    most = (std::max)({most, AttentionForward<ForwardDots>::workspace_bytes(args),
                       AttentionBackward<BackwardDots>::workspace_bytes(args)});
#endif
  return most;
}

static constexpr AttentionKernels attention_kernels{
    attention_forward_kernel, attention_backward_kernel, attention_workspace_bytes};

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
