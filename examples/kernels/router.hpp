#pragma once
// The router of a mixture of experts: logits = x w, the k experts with the largest logits, and
// their weights, the softmax over these k. In fp32, because a close decision must not depend on
// rounding. The Vector engine finds the eight largest numbers of a row, and their places, in two
// instructions.

#include "kernels/turned.hpp"

namespace kernels {

// x [tokens, hidden], w [hidden, experts], weights [tokens, k] of fp32; chosen [tokens, k] of
// int32, the largest first. hidden is a multiple of 128; 8 to 512 experts; k is at most 8.
inline void router(nc::Core& core, const Tensor& x, const Tensor& w, const Tensor& weights,
                   const Tensor& chosen) {
  const nc::Core::Scope scope(core);
  const std::size_t tokens = x.size(0), hidden = x.size(1), experts = w.size(1), k = chosen.size(1);
  const std::size_t blocks = hidden / lanes;
  const Tile factors = core.sbuf.tile(DType::fp32, lanes, blocks * experts);
  for (std::size_t b = 0; b < blocks; ++b)
    core.dma.queue(1).load(factors.columns(b * experts, (b + 1) * experts),
                           nc::hbm(w).rows(b * lanes, (b + 1) * lanes));
  struct Buffers {
    Tile rows, turned, logits, top, where, shares, numbers, sums;
  };
  Buffers buffers[2];
  for (Buffers& own : buffers)
    own = {core.sbuf.tile(DType::fp32, lanes, hidden),  core.sbuf.tile(DType::fp32, lanes, hidden),
           core.sbuf.tile(DType::fp32, lanes, experts), core.sbuf.tile(DType::fp32, lanes, 8),
           core.sbuf.tile(DType::int32, lanes, 8),      core.sbuf.tile(DType::fp32, lanes, k),
           core.sbuf.tile(DType::fp32, lanes, 2),       core.psum.tile(lanes, experts)};
  Turned turn_blocks(core, DType::fp32);

  for (std::size_t token = 0, turn = 0; token < tokens; token += lanes, turn ^= 1) {
    const std::size_t height = (std::min)(lanes, tokens - token);
    const auto part = [&](const Tile& tile) { return tile.rows(0, height); };
    const Buffers& own = buffers[turn];
    const Tile rows = part(own.rows), turned = own.turned.columns(0, blocks * height);
    const Tile sums = part(own.sums), logits = part(own.logits), top = part(own.top);
    core.dma.load(rows, nc::hbm(x).rows(token, token + height));
    turn_blocks(turned, rows);
    for (std::size_t b = 0; b < blocks; ++b)
      core.tensor.matmul(sums, turned.columns(b * height, (b + 1) * height),
                         factors.columns(b * experts, (b + 1) * experts),
                         b == 0 ? Accumulate::no : Accumulate::yes);
    core.scalar.copy(logits, sums);
    core.vector.max8(top, logits).find_index8(part(own.where), logits, top);
    // exp(logit - largest), and their sum on the way
    const Tile shift = part(own.numbers).columns(0, 1), total = part(own.numbers).columns(1, 2);
    const Tile shares = part(own.shares), where = part(own.where).columns(0, k);
    core.vector.tensor_scalar(shift, top.columns(0, 1), Alu::multiply, -1);
    core.scalar.activation_reduce(shares, top.columns(0, k), Function::exp, total,
                                  {.bias = &shift});
    core.vector.reciprocal(total, total);
    core.vector.tensor_scalar(shares, shares, Alu::multiply, total);
    core.dma.queue(2)
        .store(nc::hbm_target(weights).rows(token, token + height), shares)
        .store(nc::hbm_target(chosen).rows(token, token + height), where);
  }
}

}  // namespace kernels
