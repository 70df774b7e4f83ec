#pragma once
// RMS norm and a product: y = (x / sqrt(mean(x^2) + epsilon)) w, row by row. The norm's own factors
// are in w. For the norm rows go to partitions, and their squares add up along the free dimension;
// for the product their elements have to be there, so blocks are transposed in between.

#include "kernels/turned.hpp"

namespace kernels {

// x [rows, hidden], w [hidden, columns], y [rows, columns], all bf16; hidden is a multiple of 128,
// columns at most 512.
inline void rms_norm_product(nc::Core& core, const Tensor& x, const Tensor& w, const Tensor& y,
                             float epsilon) {
  const nc::Core::Scope scope(core);
  const std::size_t rows = x.size(0), hidden = x.size(1), columns = w.size(1);
  const std::size_t blocks = hidden / lanes;
  // Rows of w that follow each other in one product are in one partition each: block b of w is
  // tile columns [b * columns, (b + 1) * columns).
  const Tile weights = core.sbuf.tile(DType::bf16, lanes, blocks * columns);
  for (std::size_t b = 0; b < blocks; ++b)
    core.dma.queue(1).load(weights.columns(b * columns, (b + 1) * columns),
                           nc::hbm(w).rows(b * lanes, (b + 1) * lanes));
  struct Buffers {
    Tile data, norm, turned, factor, result, sums;
  };
  Buffers buffers[2];
  for (Buffers& own : buffers)
    own = {core.sbuf.tile(DType::bf16, lanes, hidden),  core.sbuf.tile(DType::bf16, lanes, hidden),
           core.sbuf.tile(DType::bf16, lanes, hidden),  core.sbuf.tile(DType::fp32, lanes, 1),
           core.sbuf.tile(DType::bf16, lanes, columns), core.psum.tile(lanes, columns)};
  Turned turn_blocks(core, DType::bf16);

  for (std::size_t row = 0, turn = 0; row < rows; row += lanes, turn ^= 1) {
    const std::size_t height = (std::min)(lanes, rows - row);
    const auto part = [&](const Tile& tile) { return tile.rows(0, height); };
    const Tile data = part(buffers[turn].data), norm = part(buffers[turn].norm);
    const Tile factor = part(buffers[turn].factor), sums = part(buffers[turn].sums);
    core.dma.load(data, nc::hbm(x).rows(row, row + height));
    // The squares themselves are not needed: `norm` is written again below.
    core.scalar.activation_reduce(norm, data, Function::square, factor);
    core.vector.tensor_scalar(factor, factor, Alu::multiply, 1.0f / float(hidden), Alu::add,
                              epsilon);
    core.scalar.activation(factor, factor, Function::rsqrt);
    core.vector.tensor_scalar(norm, data, Alu::multiply, factor);
    const Tile turned = buffers[turn].turned.columns(0, blocks * height);
    turn_blocks(turned, norm);
    for (std::size_t b = 0; b < blocks; ++b)
      core.tensor.matmul(sums, turned.columns(b * height, (b + 1) * height),
                         weights.columns(b * columns, (b + 1) * columns),
                         b == 0 ? Accumulate::no : Accumulate::yes);
    core.scalar.copy(part(buffers[turn].result), sums);  // rounds to bf16
    core.dma.queue(2).store(nc::hbm_target(y).rows(row, row + height), part(buffers[turn].result));
  }
}

}  // namespace kernels
