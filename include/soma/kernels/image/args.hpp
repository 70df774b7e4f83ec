#pragma once
// Arguments of max pooling, and of the kernels that make a matrix product of a 2-D convolution.
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
  std::size_t pad_height = 0, pad_width = 0;  // on each side: zeros (convolution), -infinity (pool)
  std::size_t out_height = 0, out_width = 0;  // (height + 2 pad - kernel) / stride + 1
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

struct ImageKernels {
  void (*unfold)(const UnfoldArgs&) noexcept;
  void (*fold)(const FoldArgs&) noexcept;
  void (*max_pool)(const MaxPoolArgs&) noexcept;
  void (*max_pool_backward)(const MaxPoolArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE
