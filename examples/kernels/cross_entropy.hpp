#pragma once
// Cross entropy of a large vocabulary in chunks: loss = log(sum of exp(logits)) - logits[label].
//
// A row of logits is too long for a tile, so it comes in chunks. The largest logit so far is
// subtracted before exp(), and if a later chunk has a larger one, the sum so far is scaled: the
// "online" softmax. The label's logit is picked by comparing positions with the label.

#include "kernels/kernel.hpp"

namespace kernels {

// logits [rows, classes] of fp32 or bf16, labels [rows, 1] of int32, losses [rows, 1] of fp32.
inline void cross_entropy(nc::Core& core, const Tensor& logits, const Tensor& labels,
                          const Tensor& losses, std::size_t chunk = 2048) {
  const nc::Core::Scope scope(core);
  const std::size_t rows = logits.size(0), classes = logits.size(1);
  chunk = (std::min)(chunk, classes);
  const Tile in[] = {core.sbuf.tile(logits.dtype(), lanes, chunk),
                     core.sbuf.tile(logits.dtype(), lanes, chunk)};
  const Tile work = core.sbuf.tile(DType::fp32, lanes, chunk);
  const Tile positions = core.sbuf.tile(DType::fp32, lanes, chunk);
  core.gpsimd.iota(positions, {.loops = {{1, chunk}}});  // 0, 1, 2 ... in every partition
  const Tile numbers = core.sbuf.tile(DType::fp32, lanes, 9);
  const Tile label_numbers = core.sbuf.tile(DType::int32, lanes, 1);

  for (std::size_t row = 0, turn = 0; row < rows; row += lanes) {
    const std::size_t height = (std::min)(lanes, rows - row);
    const auto number = [&](std::size_t i) { return numbers.rows(0, height).columns(i, i + 1); };
    const Tile largest = number(0), larger = number(1), of_chunk = number(2), shift = number(3),
               correction = number(4), sum = number(5), picked = number(6), label = number(7),
               place = number(8);
    core.dma.load(label_numbers.rows(0, height), nc::hbm(labels).rows(row, row + height));
    core.vector.copy(label, label_numbers.rows(0, height));
    core.vector.memset(sum, 0).memset(picked, 0);
    core.vector.memset(largest, -std::numeric_limits<float>::infinity());
    for (std::size_t first = 0; first < classes; first += chunk, turn ^= 1) {
      const std::size_t width = (std::min)(chunk, classes - first);
      const auto part = [&](const Tile& tile) { return tile.rows(0, height).columns(0, width); };
      const Tile data = part(in[turn]);
      core.dma.load(data, nc::hbm(logits).rows(row, row + height).columns(first, first + width));
      // picked += data where position + first == label, else 0
      core.vector.tensor_scalar(place, label, Alu::subtract, first);
      core.vector.scalar_tensor_tensor(part(work), part(positions), Alu::equal, place,
                                       Alu::multiply, data);
      core.vector.tensor_reduce(of_chunk, part(work), Alu::add);
      core.vector.tensor_tensor(picked, picked, of_chunk, Alu::add);
      // sum = sum * exp(largest - larger) + sum of exp(data - larger)
      core.vector.tensor_reduce(of_chunk, data, Alu::maximum);
      core.vector.tensor_tensor(larger, largest, of_chunk, Alu::maximum);
      core.vector.tensor_scalar(shift, larger, Alu::multiply, -1);
      core.scalar.activation(correction, largest, Function::exp, {.bias = &shift});
      core.scalar.activation_reduce(part(work), data, Function::exp, of_chunk, {.bias = &shift});
      core.vector.scalar_tensor_tensor(sum, sum, Alu::multiply, correction, Alu::add, of_chunk);
      core.vector.copy(largest, larger);
    }
    core.scalar.activation(sum, sum, Function::log);
    core.vector.tensor_scalar(sum, sum, Alu::add, largest, Alu::subtract, picked);
    core.dma.queue(1).store(nc::hbm_target(losses).rows(row, row + height), sum);
  }
}

}  // namespace kernels
