#pragma once
// Transposed 2-D convolution: the map from a convolution's result gradient to its input gradient. x
// [N, C, H, W], weight [C, O / groups, kernel height, kernel width]; y [N, O, H', W'] with
// H' = (H - 1) stride - padding + (kernel - 1) dilation + 1 + extra. On a device it consists of the
// operators of convolutions, which the device has.

#include <soma/ops/image/convolution.hpp>
#include <soma/ops/image/settings.hpp>
#include <soma/ops/run.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// The result's height or width. Errors operator.value, tensor.shape, base.size_overflow.
inline std::size_t transposed_size(std::size_t size, std::size_t kernel, std::size_t dilation,
                                   std::size_t stride, std::size_t pads, std::size_t extra) {
  constexpr std::string_view name = "convolution_transpose";
  if (stride == 0) fail(error_id::operator_value, name, "stride", "0", "1 or more");
  if (extra >= stride)
    fail(error_id::operator_value, name, "extra", std::to_string(extra),
         "below the stride, " + std::to_string(stride));
  if (size == 0) fail(error_id::tensor_shape, name, "x", "no pixels", "one at least");
  const std::size_t reach =
      kernel == 0 ? 0
                  : checked_add(checked_multiply(kernel - 1, dilation, name), std::size_t{1}, name);
  const std::size_t padded =
      checked_add(checked_multiply(size - 1, stride, name), checked_add(reach, extra, name), name);
  if (kernel == 0 || pads >= padded)
    fail(error_id::tensor_shape, name, "kernel",
         std::to_string(kernel) + " with padding " + std::to_string(pads) + " on both sides",
         "a result of one pixel at least");
  return padded - pads;
}

inline Shape transposed_shape(const Shape& x, const Shape& weight,
                              const TransposedSetting& setting) {
  const ConvolutionSetting& steps = setting.steps;
  const auto pads = [](std::size_t before, std::uint32_t behind) {
    return checked_add(before, padding_behind(behind, before), "convolution_transpose");
  };
  return Shape{
      x[0], checked_multiply(weight[1], steps.groups, "convolution_transpose"),
      transposed_size(x[2], weight[2], steps.dilation_height, steps.stride_height,
                      pads(steps.pad_height, steps.pad_height_behind), setting.extra_height),
      transposed_size(x[3], weight[3], steps.dilation_width, steps.stride_width,
                      pads(steps.pad_width, steps.pad_width_behind), setting.extra_width)};
}

inline void convolution_transpose_shape(const ShapeCall& call) {
  const Tensor &x = call.inputs[0], &weight = call.inputs[1];
  check_rank("convolution_transpose", "x", x, 4);
  check_floating("convolution_transpose", "x", x);
  check_rank("convolution_transpose", "weight", weight, 4);
  check_floating("convolution_transpose", "weight", weight);
  if (weight.size(0) != x.size(1))
    fail(error_id::tensor_shape, "convolution_transpose", "x", x.describe(),
         std::to_string(weight.size(0)) + " channels for the weight, " + weight.describe());
  check_groups("convolution_transpose", weight,
               call.attributes.as<TransposedSetting>().steps.groups);
  call.outputs[0] = {
      transposed_shape(x.shape(), weight.shape(), call.attributes.as<TransposedSetting>()),
      x.dtype()};
}

inline void convolution_transpose_fp32(const OperatorCall& call) {
  const Tensor x = contiguous(call.context, call.inputs[0]),
               weight = contiguous(call.context, call.inputs[1]);
  image_gradients(convolution_of(call.context, call.outputs[0], weight,
                                 call.attributes.as<TransposedSetting>().steps),
                  x, call.outputs[0].mutable_data<float>());
}

// The convolution from y to x has x as the gradient of its result. A device also computes the other
// gradients, which are not needed, so they come from an image of zeros.
inline void convolution_transpose_host(const OperatorCall& call) {
  if (call.context.device() == nullptr)
    return compute_in_fp32(call, convolution_transpose_fp32, cast_host);
  const auto& setting = call.attributes.as<TransposedSetting>();
  const Tensor image =
      Tensor::zeros(call.context, call.outputs[0].shape(), call.outputs[0].dtype());
  const Outputs gradients = run(call.context, ops::convolution_backward, setting.steps,
                                {image, call.inputs[1], call.inputs[0]}, call.sequences);
  copy(gradients[0], call.outputs[0]);
}

// dx is the convolution of dy. The weight's gradient is that of this convolution, with x as the
// gradient of its result.
inline void convolution_transpose_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<TransposedSetting>();
  const Tensor &x = call.inputs[0], &weight = call.inputs[1], &dy = call.output_gradients[0];
  if (call.wanted[0])
    call.input_gradients[0].values =
        run(call.context, ops::convolution, setting.steps, {dy, weight}, call.sequences)[0];
  if (call.wanted[1])
    call.input_gradients[1].values = run(call.context, ops::convolution_backward, setting.steps,
                                         {dy, weight, x}, call.sequences)[1];
}

// The weight's gradient also reads the weight, for its shape.
inline KeptTensors convolution_transpose_keeps(std::uint32_t wanted) {
  return {.inputs = 2u | (wanted >> 1 & 1)};
}

}  // namespace detail

namespace ops {

inline constexpr Operator convolution_transpose{.name = "convolution_transpose",
                                                .min_inputs = 2,
                                                .max_inputs = 2,
                                                .keeps_inputs = 3,
                                                .keeps_for = &detail::convolution_transpose_keeps,
                                                .composite = true,
                                                .batch_inputs = 1,
                                                .row_dimensions = RowDimensions::first,
                                                .shape = &detail::convolution_transpose_shape,
                                                .host = &detail::convolution_transpose_host,
                                                .gradient = &detail::convolution_transpose_gradient,
                                                .wide_gradients = true,
                                                .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
