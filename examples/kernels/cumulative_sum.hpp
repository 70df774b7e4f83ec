#pragma once
// Cumulative sum: y[row, i] = x[row, 0] + ... + x[row, i]. Rows go to partitions, which work in
// parallel; along a row the Vector engine's scan adds one element after the other.

#include "kernels/kernel.hpp"

namespace kernels {

// x and y are [rows, columns] of fp32.
inline void cumulative_sum(nc::Core& core, const Tensor& x, const Tensor& y,
                           std::size_t chunk = 2048) {
  const nc::Core::Scope scope(core);  // gives the tiles back
  const std::size_t rows = x.size(0), columns = x.size(1);
  chunk = (std::min)(chunk, columns);
  // Two tiles take turns: the next elements arrive in one while the other is worked on.
  const Tile in[] = {core.sbuf.tile(DType::fp32, lanes, chunk),
                     core.sbuf.tile(DType::fp32, lanes, chunk)};
  const Tile out[] = {core.sbuf.tile(DType::fp32, lanes, chunk),
                      core.sbuf.tile(DType::fp32, lanes, chunk)};
  const Tile ones = core.sbuf.tile(DType::fp32, lanes, chunk);
  core.vector.memset(ones, 1);
  std::size_t turn = 0;
  for (std::size_t row = 0; row < rows; row += lanes) {
    const std::size_t height = (std::min)(lanes, rows - row);
    nc::ScalarOperand before = 0;  // the sum so far: a number at first, then a column
    for (std::size_t column = 0; column < columns; column += chunk, turn ^= 1) {
      const std::size_t width = (std::min)(chunk, columns - column);
      const Tile data = in[turn].rows(0, height).columns(0, width);
      const Tile sums = out[turn].rows(0, height).columns(0, width);
      const auto part = [&](const nc::HbmView& view) {
        return view.rows(row, row + height).columns(column, column + width);
      };
      core.dma.load(data, part(nc::hbm(x)));
      // sums[i] = 1 * sums[i - 1] + data[i]
      core.vector.tensor_tensor_scan(sums, ones.rows(0, height).columns(0, width), data, before,
                                     Alu::multiply, Alu::add);
      before = sums.columns(width - 1, width);
      core.dma.queue(1).store(part(nc::hbm_target(y)), sums);
    }
  }
}

}  // namespace kernels
