#pragma once
// Samples of convolutions and pooling, and their formulas in double.

#include <soma/ops/image/average_pool.hpp>
#include <soma/ops/image/convolution.hpp>
#include <soma/ops/image/convolution_transpose.hpp>
#include <soma/ops/image/max_pool.hpp>
#include <soma/ops/image/quantized_convolution.hpp>
#include <soma/ops/image/resize.hpp>
#include <soma/ops/product_formats.hpp>
#include <soma/ops/samples.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

// The image's pixel that a window reads at a position of the kernel; nothing: padding.
inline std::optional<std::size_t> pixel_of(std::size_t window, std::size_t stride,
                                           std::size_t position, std::size_t dilation,
                                           std::size_t before, std::size_t size) {
  const std::size_t padded = window * stride + position * dilation;
  if (padded < before || padded >= size + before) return {};
  return padded - before;
}

inline std::vector<ReferenceTensor> convolution_reference(
    const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
  const auto& setting = sample.attributes.as<ConvolutionSetting>();
  const Shape &x = inputs[0].shape, &w = inputs[1].shape;
  const auto windows = [](std::size_t size, std::size_t before, std::uint32_t behind,
                          std::size_t kernel, std::size_t dilation, std::size_t stride) {
    std::size_t count = 0;  // windows whose last pixel is on the padded image
    const std::size_t padded = size + before + (behind == as_before ? before : behind);
    while (count * stride + (kernel - 1) * dilation < padded) ++count;
    return count;
  };
  const std::size_t height = windows(x[2], setting.pad_height, setting.pad_height_behind, w[2],
                                     setting.dilation_height, setting.stride_height);
  const std::size_t width = windows(x[3], setting.pad_width, setting.pad_width_behind, w[3],
                                    setting.dilation_width, setting.stride_width);
  ReferenceTensor y{Shape{x[0], w[0], height, width}, {}};
  for (std::size_t n = 0; n < x[0]; ++n)
    for (std::size_t o = 0; o < w[0]; ++o)
      for (std::size_t i = 0; i < height; ++i)
        for (std::size_t j = 0; j < width; ++j) {
          double sum = inputs.size() > 2 && inputs[2].defined ? inputs[2].values[o] : 0;
          const std::size_t first = o * setting.groups / w[0] * w[1];  // channel of the group
          for (std::size_t c = 0; c < w[1]; ++c)
            for (std::size_t a = 0; a < w[2]; ++a)
              for (std::size_t b = 0; b < w[3]; ++b) {
                const auto row = pixel_of(i, setting.stride_height, a, setting.dilation_height,
                                          setting.pad_height, x[2]);
                const auto column = pixel_of(j, setting.stride_width, b, setting.dilation_width,
                                             setting.pad_width, x[3]);
                if (!row || !column) continue;
                sum += inputs[0].values[((n * x[1] + first + c) * x[2] + *row) * x[3] + *column] *
                       inputs[1].values[((o * w[1] + c) * w[2] + a) * w[3] + b];
              }
          y.values.push_back(sum);
        }
  return {y};
}

inline OperatorSamples convolution_samples() {
  OperatorSamples result;
  result.reference = &convolution_reference;
  const auto add = [&](const Shape& x, const Shape& weight, bool bias,
                       const ConvolutionSetting& setting) {
    const double error = static_cast<double>(weight.elements() + x.elements() + 8) * 0x1p-24;
    result.samples.push_back({.name = to_string(x) + " " + to_string(weight),
                              .inputs = {{.shape = x},
                                         {.shape = weight},
                                         {.shape = Shape{weight[0]}, .left_out = !bias}},
                              .attributes = setting,
                              .lengths = {},
                              .error = error,
                              .gradient_error = error});
  };
  add({1, 1, 3, 3}, {1, 1, 3, 3}, false, {});
  add({3, 2, 5, 7}, {4, 2, 3, 3}, true, {.pad_height = 1, .pad_width = 1});
  add({2, 3, 8, 6}, {5, 3, 2, 4}, true,
      {.stride_height = 2, .stride_width = 3, .pad_height = 1, .pad_width = 2});
  add({0, 1, 4, 4}, {2, 1, 3, 3}, true, {});
  add({2, 2, 7, 9}, {3, 2, 3, 2}, true,
      {.pad_height = 2, .pad_width = 1, .dilation_height = 2, .dilation_width = 3});
  add({2, 1, 8, 7}, {2, 1, 3, 3}, false,  // strides and dilations with and without common factors
      {.stride_height = 2,
       .stride_width = 4,
       .pad_height = 3,
       .pad_width = 5,
       .dilation_height = 3,
       .dilation_width = 2});
  add({1, 2, 3, 4}, {2, 2, 2, 1}, true, {.pad_height = 3, .pad_width = 2});  // windows of padding
  add({2, 2, 1, 6}, {2, 2, 1, 3}, true,
      {.pad_width = 4, .pad_height_behind = 0, .pad_width_behind = 0, .dilation_width = 2});
  add({2, 6, 4, 5}, {4, 3, 3, 2}, true, {.pad_height = 1, .pad_width_behind = 2, .groups = 2});
  // Depthwise.
  add({3, 4, 6, 7}, {4, 1, 3, 3}, true, {.pad_height = 1, .pad_width = 1, .groups = 4});
  add({2, 2, 9, 8}, {6, 1, 3, 2}, false,
      {.stride_height = 2,
       .stride_width = 3,
       .pad_height = 2,
       .pad_width = 1,
       .pad_width_behind = 2,
       .dilation_height = 2,
       .groups = 2});
  add({1, 3, 2, 40}, {3, 1, 1, 5}, true,
      {.stride_height = 2, .pad_width = 6, .dilation_width = 3, .groups = 3});
  add({0, 3, 2, 4}, {3, 1, 2, 2}, true, {.groups = 3});
  return result;
}

inline OperatorSamples convolution_transpose_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& x, const Shape& weight, const TransposedSetting& setting) {
    const double error =
        static_cast<double>(weight.elements() * 4 + x.elements() * 4 + 8) * 0x1p-24;
    result.samples.push_back({.name = to_string(x) + " " + to_string(weight),
                              .inputs = {{.shape = x}, {.shape = weight}},
                              .attributes = setting,
                              .lengths = {},
                              .error = error,
                              .gradient_error = error});
  };
  add({1, 1, 3, 3}, {1, 1, 3, 3}, {});
  add({2, 3, 4, 3}, {3, 2, 3, 2}, {{.stride_height = 2, .stride_width = 3, .pad_height = 1}, 1, 0});
  add({0, 2, 3, 3}, {2, 3, 2, 2}, {});
  add({2, 4, 3, 4}, {4, 3, 3, 2},
      {{.stride_height = 2,
        .pad_height = 3,
        .pad_height_behind = 1,
        .dilation_height = 2,
        .dilation_width = 3,
        .groups = 2},
       1,
       0});
  add({2, 3, 4, 5}, {3, 1, 3, 3},
      {{.stride_height = 2, .stride_width = 2, .pad_height = 1, .pad_width = 1, .groups = 3},
       1,
       1});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<TransposedSetting>();
    const Shape &x = inputs[0].shape, &w = inputs[1].shape;
    ReferenceTensor y{transposed_shape(x, w, setting), {}};
    const Shape& shape = y.shape;
    y.values.assign(shape.elements(), 0.0);
    for (std::size_t n = 0; n < x[0]; ++n)
      for (std::size_t c = 0; c < x[1]; ++c)
        for (std::size_t i = 0; i < x[2] * x[3]; ++i)
          for (std::size_t o = 0; o < w[1]; ++o)
            for (std::size_t k = 0; k < w[2] * w[3]; ++k) {
              const ConvolutionSetting& steps = setting.steps;
              const auto row = pixel_of(i / x[3], steps.stride_height, k / w[3],
                                        steps.dilation_height, steps.pad_height, shape[2]);
              const auto column = pixel_of(i % x[3], steps.stride_width, k % w[3],
                                           steps.dilation_width, steps.pad_width, shape[3]);
              if (!row || !column) continue;
              const std::size_t to = c * steps.groups / x[1] * w[1] + o;
              y.values[((n * shape[1] + to) * shape[2] + *row) * shape[3] + *column] +=
                  inputs[0].values[(n * x[1] + c) * x[2] * x[3] + i] *
                  inputs[1].values[(c * w[1] + o) * w[2] * w[3] + k];
            }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

// Without any conversion it is a convolution, or a transposed one.
inline OperatorSamples quantized_convolution_samples() {
  static LinearFormats wide;
  OperatorSamples result = convolution_samples();
  for (Sample& sample : result.samples)
    sample.attributes =
        QuantizedConvolutionSetting{.steps = {.steps = sample.attributes.as<ConvolutionSetting>()},
                                    .formats = &wide,
                                    .record = true};
  for (Sample& sample : convolution_transpose_samples().samples) {
    sample.attributes =
        QuantizedConvolutionSetting{.steps = sample.attributes.as<TransposedSetting>(),
                                    .transposed = true,
                                    .formats = &wide,
                                    .record = true};
    result.samples.push_back(std::move(sample));
  }
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<QuantizedConvolutionSetting>();
    Sample plain = sample;
    plain.attributes =
        setting.transposed ? Attributes(setting.steps) : Attributes(setting.steps.steps);
    return (setting.transposed ? convolution_transpose_samples() : convolution_samples())
        .reference(plain, inputs);
  };
  return result;
}

inline OperatorSamples max_pool_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& shape, const MaxPoolSetting& setting) {
    // Values so far apart that no step of a difference quotient changes the largest.
    std::vector<double> values;
    for (std::size_t i = 0; i < shape.elements(); ++i)
      values.push_back(static_cast<double>(i * 37 % 101) * 0.0625 - 3);
    result.samples.push_back({.name = to_string(shape),
                              .inputs = {{.shape = shape, .values = values}},
                              .attributes = setting,
                              .lengths = {},
                              .error = 0,
                              .gradient_error = 8 * 0x1p-24});
  };
  add({2, 3, 4, 6}, {});
  add({1, 2, 5, 5}, {3, 3, {1, 1, 1, 1}});
  add({1, 1, 7, 4}, {3, 2, {2, 2, 0, 0}});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<MaxPoolSetting>();
    const Shape& x = inputs[0].shape;
    const Window w = pool_window(x, setting);
    ReferenceTensor y{Shape{x[0], x[1], w.out_height, w.out_width}, {}};
    for (std::size_t plane = 0; plane < x[0] * x[1]; ++plane)
      for (std::size_t i = 0; i < w.out_height; ++i)
        for (std::size_t j = 0; j < w.out_width; ++j) {
          double largest = -std::numeric_limits<double>::infinity();
          for (std::size_t a = 0; a < w.kernel_height; ++a)
            for (std::size_t b = 0; b < w.kernel_width; ++b) {
              const std::size_t row = i * w.stride_height + a, column = j * w.stride_width + b;
              if (row < w.pad_height || row >= x[2] + w.pad_height || column < w.pad_width ||
                  column >= x[3] + w.pad_width)
                continue;
              largest =
                  (std::max)(largest, inputs[0].values[(plane * x[2] + row - w.pad_height) * x[3] +
                                                       column - w.pad_width]);
            }
          y.values.push_back(largest);
        }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline OperatorSamples average_pool_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& shape, const AveragePoolSetting& setting) {
    result.samples.push_back({.name = to_string(shape),
                              .inputs = {{.shape = shape}},
                              .attributes = setting,
                              .lengths = {},
                              .error = static_cast<double>(shape[2] * shape[3] + 1) * 0x1p-24,
                              .gradient_error = 16 * 0x1p-24});
  };
  add({2, 3, 4, 6}, {});
  add({1, 2, 5, 5}, {3, 3, {1, 1, 1, 1}, true});
  add({1, 2, 5, 6}, {3, 2, {2, 2, 1, 1}, false});
  add({1, 2, 9, 8}, {5, 6, {2, 1, 1, 0}, false});  // more than few_pixels
  add({2, 1, 6, 7}, {.out_height = 1, .out_width = 1});
  add({2, 2, 7, 5}, {.out_height = 3, .out_width = 5});
  add({1, 1, 2, 3}, {.out_height = 4, .out_width = 1});
  add({0, 1, 4, 4}, {});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<AveragePoolSetting>();
    const Shape& x = inputs[0].shape;
    const PoolAxes axes = pool_axes(x, setting);
    const bool adaptive = setting.out_height != 0;
    ReferenceTensor y{Shape{x[0], x[1], axes.height.out, axes.width.out}, {}};
    // A pixel belongs to an adaptive window if the window's two ends, as fractions, enclose a part
    // of it.
    const auto covers = [&](const PoolAxis& axis, std::size_t window, std::size_t pixel) {
      if (adaptive)
        return (pixel + 1) * axis.out > window * axis.size &&
               pixel * axis.out < (window + 1) * axis.size;
      return pixel + axis.pad >= window * axis.stride &&
             pixel + axis.pad < window * axis.stride + axis.kernel;
    };
    for (std::size_t plane = 0; plane < x[0] * x[1]; ++plane)
      for (std::size_t i = 0; i < axes.height.out; ++i)
        for (std::size_t j = 0; j < axes.width.out; ++j) {
          double sum = 0, count = 0;
          for (std::size_t r = 0; r < x[2]; ++r)
            for (std::size_t c = 0; c < x[3]; ++c) {
              if (!covers(axes.height, i, r) || !covers(axes.width, j, c)) continue;
              sum += inputs[0].values[(plane * x[2] + r) * x[3] + c];
              ++count;
            }
          if (!adaptive && setting.count_padding)
            count = static_cast<double>(setting.kernel_height * setting.kernel_width);
          y.values.push_back(sum / count);
        }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline OperatorSamples resize_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& shape, const ResizeSetting& setting) {
    const double shares =
        static_cast<double>(4 + 4 * setting.height * setting.width / (shape[2] * shape[3]));
    result.samples.push_back({.name = to_string(shape) + " to " + std::to_string(setting.height) +
                                      " x " + std::to_string(setting.width),
                              .inputs = {{.shape = shape}},
                              .attributes = setting,
                              .lengths = {},
                              .error = setting.bilinear ? 8 * 0x1p-24 : 0,
                              .gradient_error = 4 * shares * 0x1p-24});
  };
  for (const bool bilinear : {false, true}) {
    add({2, 3, 4, 6}, {8, 12, bilinear, false});
    add({1, 2, 5, 7}, {3, 10, bilinear, false});
    add({0, 2, 3, 3}, {2, 2, bilinear, false});
    add({1, 1, 1, 3}, {4, 1, bilinear, false});
  }
  add({1, 2, 4, 5}, {9, 3, true, true});
  add({2, 1, 3, 2}, {1, 5, true, true});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<ResizeSetting>();
    const Shape& x = inputs[0].shape;
    ReferenceTensor y{x.with(2, setting.height).with(3, setting.width), {}};
    // A place on an axis of `size` pixels: a pixel weighs as much as it is near, up to a distance
    // of 1; beyond the outermost centres there is the outermost pixel.
    const auto place = [&](std::size_t size, std::size_t out, std::size_t i) {
      const auto from = static_cast<double>(size), to = static_cast<double>(out),
                 at = static_cast<double>(i);
      if (!setting.bilinear) return std::floor(at * from / to);
      const double free = setting.align_corners ? out == 1 ? 0 : at * (from - 1) / (to - 1)
                                                : (at + 0.5) * from / to - 0.5;
      return std::fmin(std::fmax(free, 0), from - 1);
    };
    for (std::size_t plane = 0; plane < x[0] * x[1]; ++plane)
      for (std::size_t i = 0; i < setting.height; ++i)
        for (std::size_t j = 0; j < setting.width; ++j) {
          const double down = place(x[2], setting.height, i), right = place(x[3], setting.width, j);
          double sum = 0;
          for (std::size_t r = 0; r < x[2]; ++r)
            for (std::size_t c = 0; c < x[3]; ++c)
              sum += std::fmax(0, 1 - std::fabs(down - static_cast<double>(r))) *
                     std::fmax(0, 1 - std::fabs(right - static_cast<double>(c))) *
                     inputs[0].values[(plane * x[2] + r) * x[3] + c];
          y.values.push_back(sum);
        }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

}  // namespace SOMA_NAMESPACE::detail
