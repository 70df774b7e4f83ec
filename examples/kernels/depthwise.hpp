#pragma once
// Depthwise convolution: y[c, h, w] = sum over i, j of k[c, i, j] x[c, h + i, w + j], no padding.
//
// An image has few channels and the core 128 partitions: so 32 strips of each channel's rows go to
// 32 partitions, and four channels are worked on at once. A strip needs the rows around it, too:
// the strips overlap. In device memory that is one access pattern, strips `strip` rows apart of
// `strip` + taps - 1 rows each.

#include "kernels/kernel.hpp"

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
      const std::size_t channel = first + i;
      core.dma.load(strips_of(own.in, i),
                    nc::hbm_first(x).pattern({{strip * width, strips}, {1, rows * width}},
                                             channel * height * width));
      // A stride of 0: every strip gets the channel's factors.
      core.dma.queue(1).load(
          strips_of(own.factors, i),
          nc::hbm_first(k).pattern({{0, strips}, {1, taps * taps}}, channel * taps * taps));
    }
    const std::size_t used = count * strips;
    const Tile in = own.in.rows(0, used);
    const Tile out = own.out.rows(0, used).reshape({strip, out_width});
    for (std::size_t tap = 0; tap < taps * taps; ++tap) {
      const std::size_t i = tap / taps, j = tap % taps;
      const Tile moved = in.pattern({{width, strip}, {1, out_width}}, i * width + j);
      const Tile factor = own.factors.rows(0, used).columns(tap, tap + 1);
      if (tap == 0)
        core.vector.tensor_scalar(out, moved, Alu::multiply, factor);
      else
        core.vector.scalar_tensor_tensor(out, moved, Alu::multiply, factor, Alu::add, out);
    }
    for (std::size_t i = 0; i < count; ++i) {
      core.dma.queue(2).store(
          nc::hbm_first_target(y).pattern({{strip * out_width, strips}, {1, strip * out_width}},
                                          (first + i) * out_height * out_width),
          strips_of(own.out, i));
    }
  }
}

}  // namespace kernels
