#pragma once
// Depthwise convolution: y[c, h, w] = sum over i, j of k[c, i, j] x[c, h + i, w + j], no padding.
//
// An image has few channels and the core 128 partitions: so 32 strips of each channel's rows go to
// 32 partitions, and four channels are worked on at once. A strip needs the rows around it, too:
// the strips overlap. In device memory that is one access pattern, strips `strip` rows apart of
// `strip` + taps - 1 rows each.

#include "kernels/kernel.hpp"

#include <array>

namespace kernels {

// x [channels, height, width], k [channels, taps, taps], y [channels, height - taps + 1, width -
// taps + 1], all fp32; the rows of y are a multiple of 32.
inline void depthwise(nc::Core& core, const Tensor& x, const Tensor& k, const Tensor& y) {
  const nc::Core::Scope scope(core);
  constexpr std::size_t strips = 32, together = lanes / strips;
  const std::size_t channels = x.size(0), height = x.size(1), width = x.size(2), taps = k.size(1);
  const std::size_t out_height = y.size(1), out_width = y.size(2), strip = out_height / strips;
  const std::size_t rows = strip + taps - 1;
  struct Buffers {
    Tile in, out, factors;
  };
  Buffers buffers[2];
  for (Buffers& own : buffers)
    own = {core.sbuf.tile(DType::fp32, lanes, rows * width),
           core.sbuf.tile(DType::fp32, lanes, strip * out_width),
           core.sbuf.tile(DType::fp32, lanes, taps * taps)};
  for (std::size_t first = 0, turn = 0; first < channels; first += together, turn ^= 1) {
    const std::size_t count = (std::min)(together, channels - first);
    const Buffers& own = buffers[turn];
    const auto strips_of = [&](const Tile& tile, std::size_t i) {
      return tile.rows(i * strips, (i + 1) * strips);
    };
    for (std::size_t i = 0; i < count; ++i) {
      const std::array<nc::HbmDimension, 2> overlapping{
          {{strips, strip * width}, {rows * width, 1}}};
      core.dma.load(strips_of(own.in, i),
                    nc::hbm_first(x).pattern((first + i) * height * width, overlapping));
      core.dma.queue(1).load(
          strips_of(own.factors, i),
          nc::hbm(k).rows(first + i, first + i + 1).flat().broadcast_rows(strips));
    }
    const std::size_t used = count * strips;
    const Tile in = own.in.rows(0, used).reshape({rows, width});
    const Tile out = own.out.rows(0, used).reshape({strip, out_width});
    for (std::size_t tap = 0; tap < taps * taps; ++tap) {
      const std::size_t i = tap / taps, j = tap % taps;
      const Tile moved = in.slice(0, i, i + strip).columns(j, j + out_width);
      const Tile factor = own.factors.rows(0, used).columns(tap, tap + 1);
      if (tap == 0)
        core.vector.tensor_scalar(out, moved, Alu::multiply, factor);
      else
        core.vector.scalar_tensor_tensor(out, moved, Alu::multiply, factor, Alu::add, out);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::array<nc::HbmDimension, 2> side_by_side{
          {{strips, strip * out_width}, {strip * out_width, 1}}};
      core.dma.queue(2).store(
          nc::hbm_first_target(y).pattern((first + i) * out_height * out_width, side_by_side),
          strips_of(own.out, i));
    }
  }
}

}  // namespace kernels
