// The image entries of the kernel table: image to columns and back, max pooling. They move and
// compare numbers; the one sum, fold's, is of plain floats. Depthwise convolution has a file of its
// own.

#if defined(SOMA_KERNELS_IMAGE_IMAGE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_IMAGE_IMAGE_INL_HPP
#undef SOMA_KERNELS_IMAGE_IMAGE_INL_HPP
#else
#define SOMA_KERNELS_IMAGE_IMAGE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/image/args.hpp>
#include <soma/kernels/image/depthwise-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

// A window in one direction: its positions begin ... end - 1 are on the image, the first of
// them at `pixel`; the others are padding.
struct WindowSpan {
  std::size_t begin, end, pixel;
};

static inline WindowSpan window_span(std::size_t position, std::size_t stride, std::size_t kernel,
                                     std::size_t pad, std::size_t extent, std::size_t dilation) {
  const std::size_t start = position * stride;  // with padding counted
  std::size_t left = start < pad + extent ? pad + extent - start : 0;
  std::size_t begin = start < pad ? pad - start : 0;
  if (dilation != 1) {
    left = (left + dilation - 1) / dilation;
    begin = (begin + dilation - 1) / dilation;
  }
  const std::size_t end = (std::min)(left, kernel);
  if (begin >= end) return {0, 0, 0};
  return {begin, end, start + begin * dilation - pad};
}

static inline WindowSpan rows_of(const Window& w, std::size_t i) {
  return window_span(i, w.stride_height, w.kernel_height, w.pad_height, w.height,
                     w.dilation_height);
}
static inline WindowSpan columns_of(const Window& w, std::size_t j) {
  return window_span(j, w.stride_width, w.kernel_width, w.pad_width, w.width, w.dilation_width);
}

// Kernels are a few pixels wide: a call of memcpy would cost more than the copy.
static inline void copy_pixels(const float* from, std::size_t count, float* to) {
  if (count >= 16) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
}

// One row of the columns: the window at (i, j), channel by channel.
static inline void unfold_window(const Window& w, const float* image, const WindowSpan& rows,
                                 const WindowSpan& columns, float* out) {
  const std::size_t area = w.kernel_height * w.kernel_width;
  const std::size_t width = columns.end - columns.begin;
  if ((rows.end - rows.begin) * width != area)
    std::memset(out, 0, w.channels * area * sizeof(float));
  for (std::size_t channel = 0; channel < w.channels; ++channel) {
    const float* from = image + (channel * w.height + rows.pixel) * w.width + columns.pixel;
    float* to = out + channel * area + rows.begin * w.kernel_width + columns.begin;
    for (std::size_t k = rows.begin; k < rows.end; ++k) {
      if (w.dilation_width == 1)
        copy_pixels(from, width, to);
      else
        for (std::size_t x = 0; x < width; ++x) to[x] = from[x * w.dilation_width];
      from += w.dilation_height * w.width;
      to += w.kernel_width;
    }
  }
}

static inline void unfold(const UnfoldArgs& args) noexcept {
  const Window& w = args.window;
  float* out = args.columns;
  for (std::size_t i = 0; i < w.out_height; ++i)
    for (std::size_t j = 0; j < w.out_width; ++j) {
      unfold_window(w, args.image, rows_of(w, i), columns_of(w, j), out);
      out += w.channels * w.kernel_height * w.kernel_width;
    }
}

// A pixel occurs at most once in a row of the columns, so each pixel adds its rows in ascending
// order.
static inline void fold_window(const Window& w, const float* in, const WindowSpan& rows,
                               const WindowSpan& columns, float* image) {
  const std::size_t area = w.kernel_height * w.kernel_width;
  const std::size_t width = columns.end - columns.begin;
  for (std::size_t channel = 0; channel < w.channels; ++channel) {
    const float* from = in + channel * area + rows.begin * w.kernel_width + columns.begin;
    float* to = image + (channel * w.height + rows.pixel) * w.width + columns.pixel;
    for (std::size_t k = rows.begin; k < rows.end; ++k) {
      for (std::size_t x = 0; x < width; ++x) to[x * w.dilation_width] += from[x];
      from += w.kernel_width;
      to += w.dilation_height * w.width;
    }
  }
}

static inline void fold(const FoldArgs& args) noexcept {
  const Window& w = args.window;
  std::fill_n(args.image, w.channels * w.height * w.width, 0.0f);
  const float* in = args.columns;
  for (std::size_t i = 0; i < w.out_height; ++i)
    for (std::size_t j = 0; j < w.out_width; ++j) {
      fold_window(w, in, rows_of(w, i), columns_of(w, j), args.image);
      in += w.channels * w.kernel_height * w.kernel_width;
    }
}

// The index of the largest pixel of a window: the first of equal pixels; the first NaN before all
// numbers.
static inline std::size_t largest_pixel(const Window& w, const float* plane, const WindowSpan& rows,
                                        const WindowSpan& columns) {
  const std::size_t width = columns.end - columns.begin;
  std::size_t best = rows.pixel * w.width + columns.pixel;
  float largest = plane[best];
  for (std::size_t k = 0; k < rows.end - rows.begin; ++k) {
    const std::size_t row = (rows.pixel + k) * w.width + columns.pixel;
    for (std::size_t at = row; at < row + width; ++at) {
      // Also true if the pixel is NaN; if `largest` is NaN, nothing replaces it.
      if (largest == largest && !(plane[at] <= largest)) {
        largest = plane[at];
        best = at;
      }
    }
  }
  return best;
}

static inline void max_pool(const MaxPoolArgs& args) noexcept {
  const Window& w = args.window;
  std::size_t out = 0;
  for (std::size_t channel = 0; channel < w.channels; ++channel) {
    const float* plane = args.image + channel * w.height * w.width;
    for (std::size_t i = 0; i < w.out_height; ++i) {
      const WindowSpan rows = rows_of(w, i);
      for (std::size_t j = 0; j < w.out_width; ++j, ++out) {
        const std::size_t best = largest_pixel(w, plane, rows, columns_of(w, j));
        args.y[out] = plane[best];
        if (args.indices != nullptr) args.indices[out] = static_cast<std::int32_t>(best);
      }
    }
  }
}

// If the stride is below the kernel's size, windows overlap: a pixel then adds their gradients in
// ascending order of the windows.
static inline void max_pool_backward(const MaxPoolArgs& args) noexcept {
  const Window& w = args.window;
  const std::size_t plane = w.height * w.width, windows = w.out_height * w.out_width;
  std::fill_n(args.dimage, w.channels * plane, 0.0f);
  for (std::size_t channel = 0; channel < w.channels; ++channel)
    for (std::size_t i = channel * windows; i < (channel + 1) * windows; ++i)
      args.dimage[channel * plane + static_cast<std::size_t>(args.indices[i])] += args.dy[i];
}

[[maybe_unused]] static constexpr ImageKernels image_kernels{
    .unfold = unfold,
    .fold = fold,
    .max_pool = max_pool,
    .max_pool_backward = max_pool_backward,
    .depthwise = depthwise,
    .depthwise_backward = depthwise_backward,
};

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
