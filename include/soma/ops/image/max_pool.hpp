#pragma once
// Max pooling of images [N, C, H, W] of any floating type: the largest element of each window. The
// gradient goes to the first of equal elements.

#include <soma/ops/image/convolution.hpp>
#include <soma/ops/image/widened.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline Window pool_window(const Shape& x, const MaxPoolSetting& setting) {
  return pool_window_of("max_pool", x, setting.kernel_height, setting.kernel_width, setting.steps);
}

// Outputs: y, and for each element of y its source in the plane of its channel.
inline void max_pool_shape(const ShapeCall& call) {
  const Tensor& x = call.inputs[0];
  check_rank("max_pool", "x", x, 4);
  check_floating("max_pool", "x", x);
  if (x.size(2) * x.size(3) > 0x7FFFFFFFu)
    fail(error_id::tensor_shape, "max_pool", "x", x.describe(), "planes of fewer than 2^31 pixels");
  const Window window = pool_window(x.shape(), call.attributes.as<MaxPoolSetting>());
  const Shape shape{x.size(0), x.size(1), window.out_height, window.out_width};
  call.outputs[0] = {shape, x.dtype()};
  call.outputs[1] = {shape, DType::int32};
}

inline void max_pool_host(const OperatorCall& call) {
  const Tensor x = contiguous(call.context, call.inputs[0]);
  const Window window = pool_window(x.shape(), call.attributes.as<MaxPoolSetting>());
  const std::size_t image = window.channels * window.height * window.width;
  const std::size_t result = window.channels * window.out_height * window.out_width;
  float* y = call.outputs[0].mutable_data<float>();
  auto* indices = call.outputs[1].mutable_data<std::int32_t>();
  for_ranges(call.context, x.size(0), image, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      call.context.kernels().image.max_pool({.window = window,
                                             .image = x.data<float>() + i * image,
                                             .y = y + i * result,
                                             .indices = indices + i * result});
  });
}

// Inputs x (its shape), indices, dy; output dx.
inline void max_pool_backward_shape(const ShapeCall& call) {
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}
inline void max_pool_backward_host(const OperatorCall& call) {
  const Shape& shape = call.inputs[0].shape();
  const Tensor dy = contiguous(call.context, call.inputs[2]);
  const Window window = pool_window(shape, call.attributes.as<MaxPoolSetting>());
  const std::size_t image = window.channels * window.height * window.width;
  const std::size_t result = window.channels * window.out_height * window.out_width;
  // Backward only reads through the pointer with which forward writes.
  auto* indices = const_cast<std::int32_t*>(call.inputs[1].data<std::int32_t>());
  float* dx = call.outputs[0].mutable_data<float>();
  for_ranges(call.context, shape[0], image, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      call.context.kernels().image.max_pool_backward({.window = window,
                                                      .indices = indices + i * result,
                                                      .dy = dy.data<float>() + i * result,
                                                      .dimage = dx + i * image});
  });
}

inline void max_pool_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator max_pool_backward{
    .name = "max_pool backward",
    .min_inputs = 0,
    .max_inputs = 3,
    .shape = &detail::max_pool_backward_shape,
    .host = &detail::image_host<detail::max_pool_backward_host>};

inline constexpr Operator max_pool{.name = "max_pool",
                                   .outputs = 2,
                                   .keeps_outputs = 2,
                                   .shape = &detail::max_pool_shape,
                                   .host = &detail::image_host<detail::max_pool_host>,
                                   .gradient = &detail::max_pool_gradient,
                                   .wide_gradients = true,
                                   .built_in_samples = true};

}  // namespace ops

inline void detail::max_pool_gradient(const GradientCall& call) {
  call.input_gradients[0].values =
      run(call.context, ops::max_pool_backward, call.attributes,
          {call.inputs[0], call.outputs[1], call.output_gradients[0]})[0];
}

}  // namespace SOMA_NAMESPACE
