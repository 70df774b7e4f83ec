#pragma once
// Arguments of max pooling, of the kernels that make a matrix product of a 2-D convolution, and of
// depthwise convolution, which is computed directly.
// Images are N x C x H x W, fp32, row-major; `images` here is one image, C x H x W.

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

// The sliding window of a convolution or a pool.
struct Window {
  std::size_t channels = 0, height = 0, width = 0;  // the image's sizes
  std::size_t kernel_height = 1, kernel_width = 1;
  std::size_t stride_height = 1, stride_width = 1;
  std::size_t pad_height = 0, pad_width = 0;  // before the image: zeros (convolution), or nothing
  std::size_t out_height = 0, out_width = 0;  // the number of windows
  // From a pixel of the window to its next one; a pool's are adjacent.
  std::size_t dilation_height = 1, dilation_width = 1;
};

// Image to columns: out is (out_height * out_width) x (channels * kernel_height * kernel_width),
// with adjacent rows. fold is the gradient: it adds the columns to the image; a pixel adds the rows
// that contain it in ascending order.
struct UnfoldArgs {
  Window window{};
  const float* image = nullptr;
  float* columns = nullptr;
};
struct FoldArgs {
  Window window{};
  const float* columns = nullptr;
  float* image = nullptr;  // overwritten
};

// y[c, i, j] = the largest number in the window; `indices` receives its index (the first of equal
// numbers; NaN wins).
struct MaxPoolArgs {
  Window window{};
  const float* image = nullptr;
  float* y = nullptr;
  std::int32_t* indices = nullptr;  // into the channel's plane; read by backward
  const float* dy = nullptr;        // backward
  float* dimage = nullptr;          // backward; overwritten
};

// How a depthwise convolution lays out a channel: the padded image in planes, one for each
// remainder of rows and columns by the stride, so that the pixels that neighbouring windows read at
// one position of the kernel are adjacent for every stride. A plane has `rows` x `columns` pixels;
// results are computed in the same layout, with gaps at the ends of rows.
struct DepthwisePlanes {
  std::size_t rows, columns;              // a plane's
  std::size_t row_phases, column_phases;  // planes down and across
  std::size_t plane;                      // floats from plane to plane: whole vectors, and one more
  std::size_t front;                      // zeros before a gradient: the farthest position
  std::size_t positions;                  // the kernel's

  constexpr explicit DepthwisePlanes(const Window& w)
      : rows(w.out_height + (w.kernel_height - 1) * w.dilation_height / w.stride_height),
        columns(w.out_width + (w.kernel_width - 1) * w.dilation_width / w.stride_width),
        row_phases(phases(w.kernel_height, w.dilation_height, w.stride_height)),
        column_phases(phases(w.kernel_width, w.dilation_width, w.stride_width)),
        plane(whole(rows * columns) + 16),
        front(whole((rows - w.out_height) * columns + columns - w.out_width)),
        positions(w.kernel_height * w.kernel_width) {}

  // Bytes of DepthwiseArgs::workspace.
  constexpr std::size_t workspace_bytes() const {
    return whole(4 * positions) * sizeof(std::size_t) +
           (2 * row_phases * column_phases * plane + front + plane) * sizeof(float);
  }

 private:
  static constexpr std::size_t whole(std::size_t count) { return (count + 15) / 16 * 16; }
  static constexpr std::size_t phases(std::size_t kernel, std::size_t dilation,
                                      std::size_t stride) {
    const std::size_t most = (kernel - 1) * dilation + 1;
    return most < stride ? most : stride;
  }
};

// One channel of one image, and the results that are made of it. y = bias, then one fused
// multiply-add for each position of the kernel in ascending order. A pixel's gradient adds the
// results in order, and of each its positions; a zero may have either sign. The weight's gradient
// is a sum over pixels (rows/row_sums-inl.hpp), which is then added to dweight; an infinite pixel
// makes NaN of it.
struct DepthwiseArgs {
  Window window{};  // `channels` is not read
  std::size_t outputs = 1;
  const float* image = nullptr;
  const float* weight = nullptr;  // outputs x kernel
  const float* bias = nullptr;    // nullptr: 0
  float* y = nullptr;             // outputs x windows
  const float* dy = nullptr;      // backward
  float* dimage = nullptr;        // backward; overwritten; nullptr: not wanted
  float* dweight = nullptr;       // backward; added to; nullptr: not wanted
  std::byte* workspace = nullptr;
};

struct ImageKernels {
  void (*unfold)(const UnfoldArgs&) noexcept;
  void (*fold)(const FoldArgs&) noexcept;
  void (*max_pool)(const MaxPoolArgs&) noexcept;
  void (*max_pool_backward)(const MaxPoolArgs&) noexcept;
  void (*depthwise)(const DepthwiseArgs&) noexcept;
  void (*depthwise_backward)(const DepthwiseArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE
