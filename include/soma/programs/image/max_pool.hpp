#pragma once
// Max pooling: planes (channels of images) are on partitions, their pixels along the free
// dimensions. Each position of the kernel reads its pixels of all windows through one access
// pattern. Windows at the border leave out positions, so no padding is needed.

#include <soma/ops/image/max_pool.hpp>
#include <soma/programs/image/image_tiles.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/support.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace SOMA_NAMESPACE::programs {

// The windows of `windows` for which position `position` of the kernel is on a pixel of `pixels`:
// their numbers, relative to the first of `windows`, and the first window's pixel, relative to the
// first of `pixels`.
struct WindowRun {
  std::size_t begin = 0, end = 0, pixel = 0;

  WindowRun(const Extent& extent, const Interval& windows, std::size_t position,
            const Interval& pixels) {
    const auto stride = static_cast<std::ptrdiff_t>(extent.stride);
    // The first window's pixel, relative to the first pixel.
    const std::ptrdiff_t first =
        static_cast<std::ptrdiff_t>(windows.begin * extent.stride + position) - extent.pad -
        static_cast<std::ptrdiff_t>(pixels.begin);
    const auto size = static_cast<std::ptrdiff_t>(pixels.size);
    const std::ptrdiff_t low = first < 0 ? (-first + stride - 1) / stride : 0;
    const std::ptrdiff_t high = first < size ? (size - first + stride - 1) / stride : 0;
    begin = static_cast<std::size_t>(low);
    end = (std::min)(static_cast<std::size_t>(high), windows.size);
    if (begin >= end) begin = end = 0;
    if (begin < end) pixel = static_cast<std::size_t>(first + low * stride);
  }
  bool empty() const { return begin == end; }
  // These windows of a tile's dimension; their pixels.
  Tile of_windows(const Tile& tile, std::size_t dimension) const {
    return tile.slice(dimension, begin, end);
  }
  Tile of_pixels(const Tile& tile, std::size_t dimension, std::size_t stride) const {
    return tile.slice(dimension, pixel, pixel + (end - begin - 1) * stride + 1, stride);
  }
};

// The numbers of some pixels within their plane, in every partition of a tile.
inline void number_pixels(Core& core, const Tile& tile, const Extent& width, const Interval& rows,
                          const Interval& columns) {
  const std::size_t first = rows.begin * width.image + columns.begin;
  core.gpsimd.iota(
      tile, {.loops = {{static_cast<std::int32_t>(width.image), rows.size}, {1, columns.size}},
             .offset = static_cast<std::int32_t>(first)});
}

// Pixels of planes, [planes, H, W] in device memory.
inline HbmView pixels_of(const HbmView& planes, const Interval& rows, const Interval& columns) {
  return planes.slice(1, rows.begin, rows.end()).slice(2, columns.begin, columns.end());
}

// [N, C, H, W] as [N C, H, W].
inline Tensor planes_of(const Tensor& images) {
  return images.reshape(Shape{images.size(0) * images.size(1), images.size(2), images.size(3)});
}

class MaxPool {
 public:
  MaxPool(Core& core, const OperatorCall& call, const Window& window)
      : core_(core),
        height_(height_of(window)),
        width_(width_of(window)),
        plan_(1, height_, width_, piece, patch_elements),
        x_(planes_of(row_major(core, call.inputs[0]))),
        largest_(planes_of(call.outputs[0])),
        indices_(planes_of(call.outputs[1])),
        pixels_(core, DType::fp32, most(), plan_.patch()),
        results_(core, DType::fp32, most(), plan_.pixels()),
        found_(core, DType::int32, most(), plan_.pixels()),
        number_(core.sbuf.tile(DType::int32, most(), plan_.patch())),
        not_a_number_(core.sbuf.tile(DType::uint8, most(), plan_.patch())),
        equal_(core.sbuf.tile(DType::uint8, most(), plan_.pixels())) {}

  void run() {
    for_output_tiles(1, height_, width_, plan_,
                     [&](const Interval&, const Interval& rows, const Interval& columns) {
                       rows_ = rows;
                       columns_ = columns;
                       numbered_ = false;
                       for_pieces(x_.size(0), lanes, [&](std::size_t plane, std::size_t planes) {
                         planes_ = {plane, planes};
                         loaded_ = false;
                         windows();
                       });
                     });
  }

 private:
  std::size_t most() const { return (std::min)(x_.size(0), lanes); }

  // Computes one tile of windows.
  void windows() {
    const std::size_t count = rows_.size * columns_.size;
    const Tile all = results_.next(planes_.size, count);
    const Tile y = all.reshape({rows_.size, columns_.size});
    const Tile index = found_.next(planes_.size, count).reshape({rows_.size, columns_.size});
    const Tile equal =
        equal_.rows(0, planes_.size).columns(0, count).reshape({rows_.size, columns_.size});
    core_.vector.memset(all, -std::numeric_limits<float>::infinity());
    // The engine's maximum(a, b) is a > b ? a : b: the old value stays if both are equal, or if the
    // new one is NaN.
    each_position(false, [&](const Position& at) {
      core_.vector.tensor_tensor(at.of(y), at.of_pixels(patch_), at.of(y), Alu::maximum);
    });
    // Runs backward, so that the first position writes last.
    each_position(true, [&](const Position& at) {
      core_.vector.tensor_tensor(at.of(equal), at.of_pixels(patch_), at.of(y), Alu::equal)
          .copy_predicated(at.of(index), at.of_pixels(patch_number_), at.of(equal));
    });
    // NaN wins.
    each_position(true, [&](const Position& at) {
      const Tile nan = at.of_pixels(patch_nan_);
      core_.vector.copy_predicated(at.of(index), at.of_pixels(patch_number_), nan)
          .copy_predicated(at.of(y), at.of_pixels(patch_), nan);
    });
    const auto store = [&](const Tensor& to, const Tile& tile) {
      core_.dma.queue(store_queue)
          .store(pixels_of(hbm_target(to).rows(planes_.begin, planes_.end()), rows_, columns_),
                 tile);
    };
    store(largest_, y);
    store(indices_, index);
  }

  // A position of the kernel, for the windows of this tile that have it.
  struct Position {
    WindowRun rows, columns;
    std::size_t stride_height, stride_width;
    Tile of(const Tile& windows) const {
      return columns.of_windows(rows.of_windows(windows, 0), 1);
    }
    Tile of_pixels(const Tile& pixels) const {
      return columns.of_pixels(rows.of_pixels(pixels, 0, stride_height), 1, stride_width);
    }
  };
  template <class Call>
  void each_position(bool backward, const Call& call) {
    const std::size_t down = plan_.rows.positions, across = plan_.columns.positions;
    const std::size_t positions = height_.kernel * width_.kernel;
    for (std::size_t i = 0; i < positions; ++i) {
      const std::size_t p = backward ? positions - 1 - i : i;
      const std::size_t a = p / width_.kernel, b = p % width_.kernel;
      const Interval kernel_rows = around(a, down, height_.kernel);
      const Interval kernel_columns = around(b, across, width_.kernel);
      load(kernel_rows, kernel_columns);
      if (!patch_.defined()) continue;
      const Position at{WindowRun(height_, rows_, a, patch_rows_),
                        WindowRun(width_, columns_, b, patch_columns_), height_.stride,
                        width_.stride};
      if (!at.rows.empty() && !at.columns.empty()) call(at);
    }
  }
  // A large kernel is cut into pieces: the piece of a position.
  static Interval around(std::size_t position, std::size_t size, std::size_t kernel) {
    const std::size_t begin = position / size * size;
    return {begin, (std::min)(size, kernel - begin)};
  }

  // Loads the pixels that this tile's windows read through some positions, their numbers, and which
  // of them are NaN.
  void load(const Interval& kernel_rows, const Interval& kernel_columns) {
    const bool same = kernel_rows == kernel_rows_ && kernel_columns == kernel_columns_;
    if (loaded_ && same) return;
    const bool numbered = std::exchange(numbered_, true) && same;
    loaded_ = true;
    kernel_rows_ = kernel_rows;
    kernel_columns_ = kernel_columns;
    const PatchSpan down(height_, rows_, kernel_rows), across(width_, columns_, kernel_columns);
    patch_rows_ = {down.pixel, down.end - down.begin};
    patch_columns_ = {across.pixel, across.end - across.begin};
    patch_ = Tile();
    const std::size_t count = patch_rows_.size * patch_columns_.size;
    if (count == 0) return;
    const auto shaped = [&](const Tile& tile) {
      return tile.reshape({patch_rows_.size, patch_columns_.size});
    };
    const Tile pixels = pixels_.next(planes_.size, count);
    core_.dma.load(
        pixels, pixels_of(hbm(x_).rows(planes_.begin, planes_.end()), patch_rows_, patch_columns_));
    const Tile numbers = number_.columns(0, count);
    if (!numbered) number_pixels(core_, numbers, width_, patch_rows_, patch_columns_);
    const Tile nan = not_a_number_.rows(0, planes_.size).columns(0, count);
    core_.vector.tensor_tensor(nan, pixels, pixels, Alu::not_equal);
    patch_ = shaped(pixels);
    patch_number_ = shaped(numbers.rows(0, planes_.size));
    patch_nan_ = shaped(nan);
  }

  Core& core_;
  const Extent height_, width_;
  const ConvolutionPlan plan_;
  const Tensor x_, largest_, indices_;
  Pair pixels_, results_, found_;
  Tile number_, not_a_number_, equal_;
  // The current tile.
  Interval rows_{}, columns_{}, planes_{}, kernel_rows_{}, kernel_columns_{};
  Interval patch_rows_{}, patch_columns_{};
  Tile patch_, patch_number_, patch_nan_;
  bool loaded_ = false, numbered_ = false;
};

inline void max_pool(Core& core, const OperatorCall& call) {
  MaxPool(core, call,
          soma::detail::pool_window(call.inputs[0].shape(), call.attributes.as<MaxPoolSetting>()))
      .run();
}

// The windows that contain pixels of an interval.
inline Interval windows_over(const Extent& extent, const Interval& pixels) {
  const auto pad = static_cast<std::size_t>(extent.pad);
  const std::size_t first = pixels.begin + pad, last = pixels.end() - 1 + pad;
  const std::size_t begin = first < extent.kernel ? 0 : (first - extent.kernel) / extent.stride + 1;
  const std::size_t end = (std::min)(last / extent.stride + 1, extent.out);
  return {begin, begin < end ? end - begin : 0};
}

// A tile of dx gathers from every window that contains its pixels: for each position of the kernel,
// it adds dy if the window's index is the pixel's number. Positions run backward, so that a pixel
// adds its windows in ascending order, as the host does.
inline void max_pool_backward(Core& core, const OperatorCall& call) {
  const Window window =
      soma::detail::pool_window(call.inputs[0].shape(), call.attributes.as<MaxPoolSetting>());
  const Extent height = height_of(window), width = width_of(window);
  const Tensor indices = planes_of(row_major(core, call.inputs[1]));
  const Tensor dy = planes_of(row_major(core, call.inputs[2]));
  const Tensor dx = planes_of(call.outputs[0]);
  // Tiles of pixels are halved until they and their windows fit; for a single pixel, the windows
  // are cut into pieces.
  constexpr std::size_t fits = 2 * piece;
  Interval rows{0, height.image}, columns{0, width.image};
  const auto most_windows = [](const Extent& extent, std::size_t pixels) {
    return (std::min)((pixels + extent.kernel - 2) / extent.stride + 1, extent.out);
  };
  while ((rows.size > 1 || columns.size > 1) &&
         (rows.size * columns.size > fits ||
          most_windows(height, rows.size) * most_windows(width, columns.size) > fits)) {
    std::size_t& size = rows.size > 1 ? rows.size : columns.size;
    size = (size + 1) / 2;
  }
  const std::size_t across = (std::min)(most_windows(width, columns.size), fits);
  const std::size_t down = (std::min)(most_windows(height, rows.size), fits / across);
  const std::size_t planes = dx.size(0), most = (std::min)(planes, lanes);
  Pair results(core, DType::fp32, most, rows.size * columns.size);
  Pair gradients(core, DType::fp32, most, down * across);
  Pair positions(core, DType::int32, most, down * across);
  const Tile number = core.sbuf.tile(DType::int32, most, rows.size * columns.size);
  const Tile parts = core.sbuf.tile(DType::fp32, most, down * across);
  const Tile chosen = core.sbuf.tile(DType::uint8, most, down * across);
  // Comparisons are in fp32, which has every integer up to 2^24.
  const bool exact = height.image * width.image <= (std::size_t{1} << 24);
  const Tile differences = exact ? Tile() : core.sbuf.tile(DType::int32, most, down * across);

  const auto add_windows = [&](const Tile& result, const Tile& numbered, const Interval& plane,
                               const Interval& r, const Interval& c, const Interval& wr,
                               const Interval& wc) {
    const auto windows = [&](const Tile& tile) {
      return tile.rows(0, plane.size).columns(0, wr.size * wc.size).reshape({wr.size, wc.size});
    };
    const Tile gradient = gradients.next(plane.size, wr.size * wc.size);
    const Tile position = positions.next(plane.size, wr.size * wc.size);
    const auto load = [&](const Tile& tile, const Tensor& from) {
      core.dma.load(tile, pixels_of(hbm(from).rows(plane.begin, plane.end()), wr, wc));
    };
    load(gradient, dy);
    load(position, indices);
    for (std::size_t p = height.kernel * width.kernel; p-- > 0;) {
      const WindowRun over_rows(height, wr, p / width.kernel, r);
      const WindowRun over_columns(width, wc, p % width.kernel, c);
      if (over_rows.empty() || over_columns.empty()) continue;
      const auto of_windows = [&](const Tile& tile) {
        return over_columns.of_windows(over_rows.of_windows(windows(tile), 0), 1);
      };
      const auto of_pixels = [&](const Tile& tile) {
        return over_columns.of_pixels(over_rows.of_pixels(tile, 0, height.stride), 1, width.stride);
      };
      const Tile here = of_windows(chosen), part = of_windows(parts), sum = of_pixels(result);
      if (exact) {
        core.vector.tensor_tensor(here, of_windows(position), of_pixels(numbered), Alu::equal);
      } else {
        const Tile difference = of_windows(differences);
        core.vector
            .tensor_tensor(difference, of_windows(position), of_pixels(numbered), Alu::bitwise_xor)
            .tensor_scalar(here, difference, Alu::equal, 0);
      }
      core.vector.select(part, here, of_windows(gradient), 0.0f)
          .tensor_tensor(sum, sum, part, Alu::add);
    }
  };
  for_pieces(height.image, rows.size, [&](std::size_t row, std::size_t row_count) {
    for_pieces(width.image, columns.size, [&](std::size_t column, std::size_t column_count) {
      const Interval r{row, row_count}, c{column, column_count};
      const Interval over_rows = windows_over(height, r), over_columns = windows_over(width, c);
      const std::size_t pixels = row_count * column_count;
      number_pixels(core, number.columns(0, pixels), width, r, c);
      for_pieces(planes, lanes, [&](std::size_t plane, std::size_t count) {
        const Tile flat = results.next(count, pixels);
        const Tile result = flat.reshape({row_count, column_count});
        core.vector.memset(flat, 0);
        for_pieces(over_rows.size, down, [&](std::size_t i, std::size_t is) {
          for_pieces(over_columns.size, across, [&](std::size_t j, std::size_t js) {
            add_windows(
                result, number.rows(0, count).columns(0, pixels).reshape({row_count, column_count}),
                {plane, count}, r, c, {over_rows.begin + i, is}, {over_columns.begin + j, js});
          });
        });
        core.dma.queue(store_queue)
            .store(pixels_of(hbm_target(dx).rows(plane, plane + count), r, c), result);
      });
    });
  });
}

}  // namespace SOMA_NAMESPACE::programs
