#pragma once
// Rotary embedding by halves: the first and the second half of a head are the two coordinates of
// points, and each point is turned by an angle that depends on the token.
//
//   y1 = x1 cos - x2 sin,  y2 = x2 cos + x1 sin
//
// Halves are slices of a tile, and the cosines of a token are broadcast over its heads: neither
// copies an element.

#include "kernels/kernel.hpp"

namespace kernels {

// x and y are [tokens, heads * width], cosines and sines [tokens, width / 2], all fp32.
inline void rotary(nc::Core& core, const Tensor& x, const Tensor& cosines, const Tensor& sines,
                   const Tensor& y, std::size_t heads) {
  const nc::Core::Scope scope(core);
  const std::size_t tokens = x.size(0), all = x.size(1), half = all / heads / 2;
  struct Buffers {
    Tile in, out, cosines, sines, products;
  };
  Buffers buffers[2];
  for (Buffers& own : buffers)
    own = {core.sbuf.tile(DType::fp32, lanes, all), core.sbuf.tile(DType::fp32, lanes, all),
           core.sbuf.tile(DType::fp32, lanes, half), core.sbuf.tile(DType::fp32, lanes, half),
           core.sbuf.tile(DType::fp32, lanes, all / 2)};
  for (std::size_t token = 0, turn = 0; token < tokens; token += lanes, turn ^= 1) {
    const std::size_t height = (std::min)(lanes, tokens - token);
    const auto part = [&](const Tile& tile) { return tile.rows(0, height); };
    const auto rows = [&](const nc::HbmView& view) { return view.rows(token, token + height); };
    const Buffers& own = buffers[turn];
    const Tile in = part(own.in), out = part(own.out);
    core.dma.load(in, rows(nc::hbm(x)));
    core.dma.queue(1)
        .load(part(own.cosines), rows(nc::hbm(cosines)))
        .load(part(own.sines), rows(nc::hbm(sines)));
    // [heads, half]: the first or second half of every head
    const auto halves = [&](const Tile& tile, std::size_t which) {
      return tile.reshape({heads, 2 * half}).columns(which * half, (which + 1) * half);
    };
    const auto of_heads = [&](const Tile& tile) {
      return part(tile).reshape({1, half}).broadcast(0, heads);
    };
    const Tile x1 = halves(in, 0), x2 = halves(in, 1), y1 = halves(out, 0), y2 = halves(out, 1);
    const Tile cos = of_heads(own.cosines), sin = of_heads(own.sines);
    const Tile products = part(own.products).reshape({heads, half});
    core.vector.tensor_tensor(y1, x1, cos, Alu::multiply);
    core.vector.tensor_tensor(products, x2, sin, Alu::multiply);
    core.vector.tensor_tensor(y1, y1, products, Alu::subtract);
    core.vector.tensor_tensor(y2, x2, cos, Alu::multiply);
    core.vector.tensor_tensor(products, x1, sin, Alu::multiply);
    core.vector.tensor_tensor(y2, y2, products, Alu::add);
    core.dma.queue(2).store(rows(nc::hbm_target(y)), out);
  }
}

}  // namespace kernels
