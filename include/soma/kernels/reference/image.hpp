#pragma once
// Image to columns, back, and max pooling, plainly: every position of every window is asked whether
// it is on the image. For tests.

#include <soma/kernels/image/args.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::reference {

// Calls visit(column, inside, pixel) for each position of the window (i, j): its column in a row of
// the unfolded image, and where it is on the image (C x H x W), if it is.
template <class Visit>
void for_each_position(const Window& w, std::size_t i, std::size_t j, const Visit& visit) {
  std::size_t column = 0;
  for (std::size_t channel = 0; channel < w.channels; ++channel)
    for (std::size_t k = 0; k < w.kernel_height; ++k)
      for (std::size_t l = 0; l < w.kernel_width; ++l, ++column) {
        const std::size_t y = i * w.stride_height + k * w.dilation_height,  // with padding
            x = j * w.stride_width + l * w.dilation_width;
        const bool inside = y >= w.pad_height && y < w.pad_height + w.height && x >= w.pad_width &&
                            x < w.pad_width + w.width;
        visit(column, inside,
              (channel * w.height + (y - w.pad_height)) * w.width + (x - w.pad_width));
      }
}

template <class T>
void unfold(const Window& w, const T* image, T* columns) {
  const std::size_t length = w.channels * w.kernel_height * w.kernel_width;
  for (std::size_t i = 0; i < w.out_height; ++i)
    for (std::size_t j = 0; j < w.out_width; ++j)
      for_each_position(w, i, j, [&](std::size_t column, bool inside, std::size_t pixel) {
        columns[(i * w.out_width + j) * length + column] = inside ? image[pixel] : T{0};
      });
}

template <class T>
void fold(const Window& w, const T* columns, T* image) {
  const std::size_t length = w.channels * w.kernel_height * w.kernel_width;
  for (std::size_t p = 0; p < w.channels * w.height * w.width; ++p) image[p] = 0;
  for (std::size_t i = 0; i < w.out_height; ++i)
    for (std::size_t j = 0; j < w.out_width; ++j)
      for_each_position(w, i, j, [&](std::size_t column, bool inside, std::size_t pixel) {
        if (inside) image[pixel] += columns[(i * w.out_width + j) * length + column];
      });
}

// The first of the largest, the first NaN before all. `indices` count from the channel's plane.
template <class T>
void max_pool(Window w, const T* image, T* y, std::int32_t* indices) {
  const std::size_t channels = w.channels, windows = w.out_height * w.out_width;
  w.channels = 1;
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t out = 0; out < windows; ++out) {
      const T* plane = image + c * w.height * w.width;
      bool found = false;
      std::size_t best = 0;
      for_each_position(w, out / w.out_width, out % w.out_width,
                        [&](std::size_t, bool inside, std::size_t pixel) {
                          if (!inside) return;
                          const bool larger =
                              found && !std::isnan(plane[best]) &&
                              (std::isnan(plane[pixel]) || plane[pixel] > plane[best]);
                          if (!found || larger) best = pixel;
                          found = true;
                        });
      y[c * windows + out] = plane[best];
      indices[c * windows + out] = static_cast<std::int32_t>(best);
    }
}

template <class T>
void max_pool_backward(const Window& w, const std::int32_t* indices, const T* dy, T* dimage) {
  const std::size_t windows = w.out_height * w.out_width, plane = w.height * w.width;
  for (std::size_t p = 0; p < w.channels * plane; ++p) dimage[p] = 0;
  for (std::size_t i = 0; i < w.channels * windows; ++i)
    dimage[i / windows * plane + static_cast<std::size_t>(indices[i])] += dy[i];
}

// One channel of a depthwise convolution: results, then the gradients of image and weight.
template <class T>
void depthwise(const Window& w, std::size_t outputs, const T* image, const T* weight, const T* bias,
               T* y) {
  const std::size_t windows = w.out_height * w.out_width, area = w.kernel_height * w.kernel_width;
  for (std::size_t o = 0; o < outputs; ++o)
    for (std::size_t at = 0; at < windows; ++at) {
      T sum = bias != nullptr ? bias[o] : T{0};
      for_each_position(w, at / w.out_width, at % w.out_width,
                        [&](std::size_t k, bool inside, std::size_t pixel) {
                          if (inside) sum = std::fma(weight[o * area + k], image[pixel], sum);
                        });
      y[o * windows + at] = sum;
    }
}

// dimage: results in order, and of each its positions in order.
template <class T>
void depthwise_backward(const Window& w, std::size_t outputs, const T* image, const T* weight,
                        const T* dy, T* dimage, double* dweight) {
  const std::size_t windows = w.out_height * w.out_width, area = w.kernel_height * w.kernel_width;
  for (std::size_t p = 0; p < w.height * w.width; ++p) dimage[p] = 0;
  for (std::size_t k = 0; k < outputs * area; ++k) dweight[k] = 0;
  for (std::size_t o = 0; o < outputs; ++o)
    for (std::size_t position = 0; position < area; ++position)
      for (std::size_t at = 0; at < windows; ++at)
        for_each_position(w, at / w.out_width, at % w.out_width,
                          [&](std::size_t k, bool inside, std::size_t pixel) {
                            if (k != position || !inside) return;
                            const T d = dy[o * windows + at];
                            dimage[pixel] = std::fma(weight[o * area + k], d, dimage[pixel]);
                            dweight[o * area + k] +=
                                static_cast<double>(d) * static_cast<double>(image[pixel]);
                          });
}

}  // namespace SOMA_NAMESPACE::reference
