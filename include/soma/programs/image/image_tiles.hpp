#pragma once
// The cut of images into tiles of output pixels and pieces of the kernel, and the patch of the
// image that a tile and a piece read.

#include <soma/kernels/image/args.hpp>
#include <soma/programs/support.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

inline constexpr std::size_t patch_elements = 8192;  // in a partition: 32 KiB, twice

constexpr std::size_t piece_count(std::size_t count, std::size_t most) {
  return (count + most - 1) / most;
}

// Sizes in one direction.
struct Extent {
  std::size_t image, out, kernel, stride;
  std::ptrdiff_t pad;  // negative: the first pixels are not used
  std::size_t dilation = 1;
};

// Some of the outputs in one direction, some positions of the kernel, and the pixels that both
// read.
struct Reach {
  std::size_t outputs, positions, stride, dilation;
  std::size_t pixels() const { return (outputs - 1) * stride + (positions - 1) * dilation + 1; }
};

// The cut of a convolution: images and output pixels of a tile, and positions of the kernel.
struct ConvolutionPlan {
  std::size_t images = 1;
  Reach rows, columns;

  // At most `most` pixels a tile, and the patch must fit in SBUF.
  ConvolutionPlan(std::size_t count, const Extent& height, const Extent& width, std::size_t most,
                  std::size_t most_positions)
      : rows{1, (std::max)(height.kernel, std::size_t{1}), height.stride, height.dilation},
        columns{1, (std::max)(width.kernel, std::size_t{1}), width.stride, width.dilation} {
    columns.outputs = even(width.out, most);
    rows.outputs = even(height.out, most / columns.outputs);
    while (rows.positions * columns.positions > most_positions)
      shrink(rows.positions >= columns.positions ? rows.positions : columns.positions);
    while (rows.pixels() * columns.pixels() > patch_elements)
      if (rows.outputs > 1)
        shrink(rows.outputs);
      else if (columns.outputs > 1)
        shrink(columns.outputs);
      else
        shrink(rows.positions >= columns.positions ? rows.positions : columns.positions);
    if (rows.outputs == height.out && columns.outputs == width.out)
      images = (std::max)((std::min)({count, most / (height.out * width.out),
                                      patch_elements / (rows.pixels() * columns.pixels())}),
                          std::size_t{1});
  }
  std::size_t patch() const { return images * rows.pixels() * columns.pixels(); }
  std::size_t pixels() const { return images * rows.outputs * columns.outputs; }

 private:
  static void shrink(std::size_t& size) { size = (size + 1) / 2; }
  // The size of pieces of equal length.
  static std::size_t even(std::size_t count, std::size_t most) {
    return piece_count(count, piece_count(count, most));
  }
};

// A range of images, channels, rows or columns.
struct Interval {
  std::size_t begin = 0, size = 0;
  std::size_t end() const { return begin + size; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

// call(images, rows, columns) for the tiles of a plan.
template <class Call>
void for_output_tiles(std::size_t images, const Extent& height, const Extent& width,
                      const ConvolutionPlan& plan, const Call& call) {
  for_pieces(images, plan.images, [&](std::size_t image, std::size_t count) {
    for_pieces(height.out, plan.rows.outputs, [&](std::size_t row, std::size_t rows) {
      for_pieces(width.out, plan.columns.outputs, [&](std::size_t column, std::size_t columns) {
        call(Interval{image, count}, Interval{row, rows}, Interval{column, columns});
      });
    });
  });
}

// The pixels of an image that some outputs read through some positions: their position in the
// patch. The rest of the patch is padding.
struct PatchSpan {
  std::size_t size, begin, end, pixel;  // [begin, end) of the patch are pixels from `pixel` on

  PatchSpan(const Extent& extent, const Interval& outputs, const Interval& positions)
      : size((outputs.size - 1) * extent.stride + (positions.size - 1) * extent.dilation + 1) {
    const auto signed_size = static_cast<std::ptrdiff_t>(size);
    const auto image = static_cast<std::ptrdiff_t>(extent.image);
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(outputs.begin * extent.stride +
                                                             positions.begin * extent.dilation) -
                                 extent.pad;
    const std::ptrdiff_t low = std::clamp(-first, std::ptrdiff_t{0}, signed_size);
    const std::ptrdiff_t high = std::clamp(image - first, low, signed_size);
    begin = static_cast<std::size_t>(low);
    end = static_cast<std::size_t>(high);
    pixel = begin == end ? 0 : static_cast<std::size_t>(first + low);
  }
  bool whole() const { return begin == 0 && end == size; }
};

inline Extent height_of(const Window& w) {
  return {w.height,
          w.out_height,
          w.kernel_height,
          w.stride_height,
          static_cast<std::ptrdiff_t>(w.pad_height),
          w.dilation_height};
}
inline Extent width_of(const Window& w) {
  return {w.width,
          w.out_width,
          w.kernel_width,
          w.stride_width,
          static_cast<std::ptrdiff_t>(w.pad_width),
          w.dilation_width};
}

}  // namespace SOMA_NAMESPACE::programs
