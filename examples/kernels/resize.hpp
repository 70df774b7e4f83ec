#pragma once
// Resizes images to the nearest pixel: every pixel of the result is a copy of one of the image.
// That is a gather of rows, channels innermost, 128 pixels at a time: an index for each partition.
// The indices are data, so the GpSimd engine writes the transfer's descriptors at run time.

#include "kernels/kernel.hpp"

#include <array>

namespace kernels {

// images [pixels of all images, channels]; results [pixels of all results, channels]; rows [128,
// steps] of int32, steps at least the pixels of all results / 128: for pixel p * steps + s of the
// results, rows[p, s] is the pixel of the images. Behind the last pixel, rows may hold anything.
inline void resize(nc::Core& core, const Tensor& images, const Tensor& rows,
                   const Tensor& results) {
  const nc::Core::Scope scope(core);
  const std::size_t pixels = results.size(0), channels = results.size(1), steps = rows.size(1);
  std::array<Tile, 4> buffers;
  for (Tile& buffer : buffers) buffer = core.sbuf.tile(images.dtype(), lanes, channels);
  // All indices at once: a partition's are adjacent in device memory, because its pixels are.
  const Tile indices = core.sbuf.tile(DType::int32, lanes, steps);
  core.dma.load(indices, nc::hbm(rows));
  for (std::size_t s = 0; s < steps; ++s) {
    const std::size_t count = (pixels - s + steps - 1) / steps;  // partitions that have a pixel s
    const Tile pixel = buffers[s % buffers.size()].rows(0, count);
    core.dma.gather(pixel, nc::hbm(images), indices.rows(0, count).columns(s, s + 1));
    // Their results are `steps` pixels apart.
    core.dma.queue(1).store(nc::hbm_first_target(results).pattern(
                                {{steps * channels, count}, {1, channels}}, s * channels),
                            pixel);
  }
}

}  // namespace kernels
