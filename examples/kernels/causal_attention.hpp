#pragma once
// Causal attention of one head, forward and backward, in blocks of 128 queries and 128 keys: no
// score leaves the core, whatever the length ("flash attention").
//
//   forward    s = q k^T / sqrt(width), later keys left out;  p = softmax(s);  out = p v
//   backward   dv = p^T dout;  dp = dout v^T;  ds = p (dp - sum of dout * out);
//              dq = ds k / sqrt(width);  dk = ds^T q / sqrt(width)
//
// The forward pass keeps log(sum of exp(s)) of each row, so that the backward pass computes p again
// with one exp().

#include "kernels/kernel.hpp"

namespace kernels {

// Blocks of 128 rows of a tensor [tokens, width]: as they are, and transposed.
struct Blocks {
  Tile rows, turned;  // [128, blocks * width], [width, tokens]

  Blocks(nc::Core& core, const Tensor& x, const Tile& bank)
      : rows(core.sbuf.tile(DType::fp32, lanes, x.elements() / lanes)),
        turned(core.sbuf.tile(DType::fp32, x.size(1), x.size(0))),
        width(x.size(1)) {
    for (std::size_t b = 0; b < x.size(0) / lanes; ++b) {
      core.dma.load(block(b), nc::hbm(x).rows(b * lanes, (b + 1) * lanes));
      const Tile place = bank.rows(0, width).columns(0, lanes);
      core.tensor.transpose(place, block(b));
      core.vector.copy(turned_block(b), place);
    }
  }
  Tile block(std::size_t b) const { return rows.columns(b * width, (b + 1) * width); }
  Tile turned_block(std::size_t b) const { return turned.columns(b * lanes, (b + 1) * lanes); }

  std::size_t width;
};

// In place: elements of later keys become `value`. Partitions are queries, columns are keys.
inline void hide_later_keys(nc::Core& core, const Tile& block, float value) {
  core.gpsimd.affine_select(block, block, {.loops = {{-1, lanes}}, .channel_multiplier = 1}, value,
                            Alu::greater_equal);
}

// q, k, v and out are [tokens, width], log_sums [tokens, 1], all fp32; tokens are a multiple of
// 128, width is at most 128.
inline void causal_attention(nc::Core& core, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Tensor& out, const Tensor& log_sums) {
  const nc::Core::Scope scope(core);
  const std::size_t width = q.size(1);
  const float scale = 1 / std::sqrt(float(width));
  const Tile scores = core.psum.tile(lanes, lanes), turned = core.psum.tile(lanes, lanes),
             product = core.psum.tile(lanes, width);
  const Blocks queries(core, q, turned), keys(core, k, turned), values(core, v, turned);
  const Tile weights = core.sbuf.tile(DType::fp32, lanes, lanes),
             weights_turned = core.sbuf.tile(DType::fp32, lanes, lanes),
             sums = core.sbuf.tile(DType::fp32, lanes, width),
             numbers = core.sbuf.tile(DType::fp32, lanes, 6);
  const auto number = [&](std::size_t i) { return numbers.columns(i, i + 1); };
  const Tile largest = number(0), larger = number(1), shift = number(2), correction = number(3),
             of_block = number(4), total = number(5);
  for (std::size_t i = 0; i < q.size(0) / lanes; ++i) {
    core.vector.memset(largest, -1e30f).memset(total, 0).memset(sums, 0);
    for (std::size_t j = 0; j <= i; ++j) {
      core.tensor.matmul(scores, queries.turned_block(i), keys.turned_block(j));
      core.scalar.activation(weights, scores, Function::copy, {.scale = scale});
      if (j == i) hide_later_keys(core, weights, -1e30f);
      core.vector.tensor_reduce(of_block, weights, Alu::maximum);
      core.vector.tensor_tensor(larger, largest, of_block, Alu::maximum);
      core.vector.tensor_scalar(shift, larger, Alu::multiply, -1);
      core.scalar.activation(correction, largest, Function::exp, {.bias = &shift});
      core.scalar.activation_reduce(weights, weights, Function::exp, of_block, {.bias = &shift});
      core.vector.copy(largest, larger);
      // The total so far was relative to a smaller number.
      core.vector.scalar_tensor_tensor(total, total, Alu::multiply, correction, Alu::add, of_block);
      core.tensor.transpose(turned, weights);
      core.vector.copy(weights_turned, turned);
      core.tensor.matmul(product, weights_turned, values.block(j));
      core.vector.scalar_tensor_tensor(sums, sums, Alu::multiply, correction, Alu::add, product);
    }
    const auto rows = [&](const Tensor& tensor) {
      return nc::hbm_target(tensor).rows(i * lanes, (i + 1) * lanes);
    };
    core.scalar.activation(shift, total, Function::log);
    core.vector.tensor_tensor(shift, shift, largest, Alu::add);
    core.dma.queue(1).store(rows(log_sums), shift);
    core.vector.reciprocal(total, total);
    core.vector.tensor_scalar(sums, sums, Alu::multiply, total);
    core.dma.queue(1).store(rows(out), sums);
  }
}

// The gradients dq, dk and dv of the loss, from that of out.
inline void causal_attention_backward(nc::Core& core, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const Tensor& out, const Tensor& log_sums,
                                      const Tensor& dout, const Tensor& dq, const Tensor& dk,
                                      const Tensor& dv) {
  const nc::Core::Scope scope(core);
  const std::size_t width = q.size(1), blocks = q.size(0) / lanes;
  const float scale = 1 / std::sqrt(float(width));
  const auto bank = [&](std::size_t columns) { return core.psum.tile(lanes, columns); };
  const Tile scores = bank(lanes), dp = bank(lanes), turned = bank(lanes), of_query = bank(width),
             of_key = bank(width), of_value = bank(width);
  const Blocks queries(core, q, turned), keys(core, k, turned), values(core, v, turned),
      outputs(core, out, turned), upper(core, dout, turned);
  const Tile p = core.sbuf.tile(DType::fp32, lanes, lanes),
             ds = core.sbuf.tile(DType::fp32, lanes, lanes),
             ds_turned = core.sbuf.tile(DType::fp32, lanes, lanes),
             result = core.sbuf.tile(DType::fp32, lanes, width),
             gradients = core.sbuf.tile(DType::fp32, lanes, blocks * width),
             shifts = core.sbuf.tile(DType::fp32, lanes, blocks),
             inner = core.sbuf.tile(DType::fp32, lanes, blocks);
  const auto number = [](const Tile& tile, std::size_t b) { return tile.columns(b, b + 1); };
  for (std::size_t b = 0; b < blocks; ++b) {
    core.dma.load(number(shifts, b), nc::hbm(log_sums).rows(b * lanes, (b + 1) * lanes));
    core.vector.tensor_tensor(result, upper.block(b), outputs.block(b), Alu::multiply);
    core.vector.tensor_reduce(number(inner, b), result, Alu::add);
  }
  core.vector.tensor_scalar(shifts, shifts, Alu::multiply, -1);
  core.vector.memset(gradients, 0);
  const auto store = [&](const Tensor& tensor, std::size_t b, const Tile& sums, float factor) {
    core.vector.tensor_scalar(result, sums, Alu::multiply, factor);
    core.dma.queue(1).store(nc::hbm_target(tensor).rows(b * lanes, (b + 1) * lanes), result);
  };
  for (std::size_t j = 0; j < blocks; ++j) {
    for (std::size_t i = j; i < blocks; ++i) {
      const Accumulate more = i == j ? Accumulate::no : Accumulate::yes;
      const Tile shift = number(shifts, i),
                 gradient = gradients.columns(i * width, (i + 1) * width);
      core.tensor.matmul(scores, queries.turned_block(i), keys.turned_block(j));
      core.scalar.activation(p, scores, Function::exp, {.scale = scale, .bias = &shift});
      if (i == j) hide_later_keys(core, p, 0);
      core.tensor.matmul(of_value, p, upper.block(i), more);
      core.tensor.matmul(dp, upper.turned_block(i), values.turned_block(j));
      core.vector.scalar_tensor_tensor(ds, dp, Alu::subtract, number(inner, i), Alu::multiply, p);
      core.tensor.matmul(of_key, ds, queries.block(i), more);
      core.tensor.transpose(turned, ds);
      core.vector.copy(ds_turned, turned);
      core.tensor.matmul(of_query, ds_turned, keys.block(j));
      core.vector.tensor_tensor(gradient, gradient, of_query, Alu::add);
    }
    store(dv, j, of_value, 1);
    store(dk, j, of_key, scale);
  }
  for (std::size_t i = 0; i < blocks; ++i)
    store(dq, i, gradients.columns(i * width, (i + 1) * width), scale);
}

}  // namespace kernels
