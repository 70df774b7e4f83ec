#pragma once
// Average pooling of images [N, C, H, W] of any floating type. With a kernel: the mean of each
// window, either with the zeros around the image or over real pixels only. Adaptive: window i of n
// covers the pixels from floor(i H / n) up to, but not including, ceil((i + 1) H / n).

#include <soma/ops/image/convolution.hpp>
#include <soma/ops/image/settings.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/run.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// The pixels that a window covers along one dimension, and the divisor of their sum.
struct PoolSpan {
  std::size_t begin, end, counted;
};
// One dimension of a pool.
struct PoolAxis {
  std::size_t size, out, kernel, stride, pad;
  bool adaptive, count_padding;

  PoolSpan span(std::size_t index) const {
    if (adaptive) {
      const std::size_t begin = even_border(size, out, index);
      const std::size_t scaled = size % out * (index + 1);
      const std::size_t end = size / out * (index + 1) + scaled / out + (scaled % out != 0 ? 1 : 0);
      return {begin, end, end - begin};
    }
    const std::size_t first = index * stride;  // in the padded image
    const std::size_t begin = first > pad ? first - pad : 0;
    const std::size_t end = (std::min)(size, (std::max)(first + kernel, pad) - pad);
    return {begin, (std::max)(begin, end), count_padding ? kernel : end - begin};
  }
};
struct PoolAxes {
  PoolAxis height, width;
};

// Errors as window_of(), and operator.value.
inline PoolAxes pool_axes(const Shape& x, const AveragePoolSetting& setting) {
  const bool adaptive = setting.out_height != 0 || setting.out_width != 0;
  if (adaptive) {
    if (setting.out_height == 0 || setting.out_width == 0)
      fail(error_id::operator_value, "average_pool", "out_height, out_width",
           std::to_string(setting.out_height) + ", " + std::to_string(setting.out_width),
           "both 0, or neither");
    if (x[2] == 0 || x[3] == 0)
      fail(error_id::tensor_shape, "average_pool", "x", to_string(x),
           "images of one pixel at least");
    return {{x[2], setting.out_height, 0, 0, 0, true, true},
            {x[3], setting.out_width, 0, 0, 0, true, true}};
  }
  const ConvolutionSetting& steps = setting.steps;
  const Window window =
      pool_window_of("average_pool", x, setting.kernel_height, setting.kernel_width, steps);
  const bool padding = setting.count_padding;
  return {{x[2], window.out_height, setting.kernel_height, steps.stride_height, steps.pad_height,
           false, padding},
          {x[3], window.out_width, setting.kernel_width, steps.stride_width, steps.pad_width, false,
           padding}};
}

inline void average_pool_shape(const ShapeCall& call) {
  const Tensor& x = call.inputs[0];
  check_rank("average_pool", "x", x, 4);
  check_floating("average_pool", "x", x);
  const PoolAxes axes = pool_axes(x.shape(), call.attributes.as<AveragePoolSetting>());
  call.outputs[0] = {Shape{x.size(0), x.size(1), axes.height.out, axes.width.out}, x.dtype()};
}

// Calls each(index of the window, first row and column, rows, columns, counted pixels).
template <class Each>
void for_windows(const PoolAxes& axes, const Each& each) {
  for (std::size_t i = 0; i < axes.height.out; ++i) {
    const PoolSpan rows = axes.height.span(i);
    for (std::size_t j = 0; j < axes.width.out; ++j) {
      const PoolSpan columns = axes.width.span(j);
      each(i * axes.width.out + j, rows, columns,
           static_cast<float>(rows.counted * columns.counted));
    }
  }
}

// Windows of up to so many pixels are summed pixel by pixel, row by row, which is faster for them.
inline constexpr std::size_t few_pixels = 16;

// Sums of `count` larger windows, whose first pixels are `distance` apart, in the order of sums
// over a row: so the error does not grow with the window (kernels/reduce/args.hpp).
inline void window_sums(Context& context, const float* first, std::size_t width, std::size_t height,
                        std::size_t line, std::size_t count, std::size_t distance, float* sums) {
  context.kernels().reduce.rows({.rows = count,
                                 .columns = height * line,
                                 .x = {.data = first, .row_stride = distance},
                                 .line = line == width ? 0 : line,
                                 .line_stride = width,
                                 .out = sums});
}

// The means of a row of windows of one plane, whose rows have `width` pixels.
inline void average_windows(Context& context, const float* pixels, std::size_t width,
                            const PoolSpan& rows, std::span<const PoolSpan> across, float* y) {
  const std::size_t height = rows.end - rows.begin;
  for (std::size_t j = 0; j < across.size();) {
    const PoolSpan columns = across[j];
    const std::size_t line = columns.end - columns.begin;
    const auto counted = static_cast<float>(rows.counted * columns.counted);
    if (height * line <= few_pixels) {
      float sum = 0;
      for (std::size_t r = rows.begin; r < rows.end; ++r)
        for (std::size_t c = columns.begin; c < columns.end; ++c) sum += pixels[r * width + c];
      y[j++] = sum / counted;
      continue;
    }
    // Windows of the same size, at the same distances, are summed together.
    std::size_t last = j + 1, distance = 0;
    for (std::size_t begin = columns.begin; last < across.size(); ++last) {
      const PoolSpan& next = across[last];
      if (next.end - next.begin != line) break;
      if (last > j + 1 && next.begin - begin != distance) break;
      distance = next.begin - begin;
      begin = next.begin;
    }
    window_sums(context, pixels + rows.begin * width + columns.begin, width, height, line, last - j,
                distance, y + j);
    for (; j < last; ++j) y[j] /= counted;
  }
}

inline void average_pool_plain(const OperatorCall& call) {
  const Tensor& x = call.inputs[0];
  const PoolAxes axes = pool_axes(x.shape(), call.attributes.as<AveragePoolSetting>());
  const std::size_t width = x.size(3), image = x.size(2) * width;
  const std::size_t result = axes.height.out * axes.width.out;
  float* out = call.outputs[0].mutable_data<float>();
  HeapVector<PoolSpan> across(call.context.heap());
  across.resize(axes.width.out);
  for (std::size_t j = 0; j < across.size(); ++j) across[j] = axes.width.span(j);
  for_ranges(call.context, x.size(0) * x.size(1), image, [&](std::size_t begin, std::size_t end) {
    const float* pixels = x.data<float>() + begin * image;
    float* y = out + begin * result;
    for (std::size_t plane = begin; plane < end; ++plane, pixels += image)
      for (std::size_t i = 0; i < axes.height.out; ++i, y += axes.width.out)
        average_windows(call.context, pixels, width, axes.height.span(i),
                        {across.data(), across.size()}, y);
  });
}
inline void average_pool_host(const OperatorCall& call) {
  with_plain_tensors(call, 0, average_pool_plain);
}

// Each pixel of a window gets an equal part of its gradient; windows are added in ascending order.
inline void average_pool_gradient(const GradientCall& call) {
  with_plain_tensors(call, [](const GradientCall& plain_call) {
    const Shape& shape = plain_call.inputs[0].shape();
    const PoolAxes axes = pool_axes(shape, plain_call.attributes.as<AveragePoolSetting>());
    const std::size_t width = shape[3], image = shape[2] * width;
    const std::size_t result = axes.height.out * axes.width.out;
    const Tensor dx = Tensor::zeros(plain_call.context, shape);
    float* to = dx.mutable_data<float>();
    const Tensor dy = contiguous(plain_call.context, plain_call.output_gradients[0]);
    for_ranges(plain_call.context, shape[0] * shape[1], image,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t plane = begin; plane < end; ++plane) {
                   float* pixels = to + plane * image;
                   const float* from = dy.data<float>() + plane * result;
                   for_windows(axes, [&](std::size_t at, const PoolSpan& rows,
                                         const PoolSpan& columns, float counted) {
                     const float part = from[at] / counted;
                     for (std::size_t r = rows.begin; r < rows.end; ++r)
                       for (std::size_t c = columns.begin; c < columns.end; ++c)
                         pixels[r * width + c] += part;
                   });
                 }
               });
    plain_call.input_gradients[0].values = dx;
  });
}

}  // namespace detail

namespace ops {

inline constexpr Operator average_pool{.name = "average_pool",
                                       .shape = &detail::average_pool_shape,
                                       .host = &detail::average_pool_host,
                                       .gradient = &detail::average_pool_gradient,
                                       .wide_gradients = true,
                                       .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
