#pragma once
// quantized_convolution: a convolution, or a transposed one, whose three products (y, dx, dW) read
// converted operands. Composed of quantize, cast, multiply and the operators of convolutions;
// gradients pass conversions unchanged, as in quantized_linear. An operand has one scale, by which
// its numbers are multiplied, in fp32, before the convolution reads them. So the gradient of the
// weight is a plain sum, and parts of a batch add up to it.

#include <soma/ops/element/binary.hpp>
#include <soma/ops/image/convolution.hpp>
#include <soma/ops/image/convolution_transpose.hpp>
#include <soma/ops/image/settings.hpp>
#include <soma/ops/product/quantized_linear.hpp>
#include <soma/ops/product_formats.hpp>
#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/support.hpp>
#include <soma/ops/views/cast.hpp>

#include <cstddef>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// Inputs x [N, C, H, W], weight and, if it is not transposed, bias; checks them as the convolution
// does.
inline void quantized_convolution_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<QuantizedConvolutionSetting>();
  TensorSpec spec[1];
  const Attributes attributes =
      setting.transposed ? Attributes(setting.steps) : Attributes(setting.steps.steps);
  const ShapeCall inner{attributes, call.inputs, call.sequences, spec};
  if (setting.transposed)
    convolution_transpose_shape(inner);
  else
    convolution_shape(inner);
}

// [N, C, H, W] as rows of W, of which an image has C * H: stochastic rounding draws by image, row
// and column.
inline Tensor image_rows(Context& context, const Tensor& x) {
  return contiguous(context, x).reshape(Shape{x.size(0) * x.size(1) * x.size(2), x.size(3)});
}

// A parameter as a matrix.
inline Tensor kernel_rows(Context& context, const Tensor& weight) {
  return contiguous(context, weight)
      .reshape(Shape{weight.size(0), weight.size(1) * weight.size(2) * weight.size(3)});
}

inline ConvertedOperand convert_images(Context& context, LinearOperand& operand,
                                       const GlobalMaximum& maximum, const Tensor& x,
                                       const Sequences& batch, const OperandUse& use) {
  Sequences rows;
  if (operand.quantizer.rounding.mode == RoundingMode::stochastic && x.elements() != 0)
    rows = (batch.defined() ? batch : Sequences::uniform(context, x.size(0)))
               .with_inner_rows(context, x.size(1) * x.size(2));
  return convert_operand(context, operand, maximum, image_rows(context, x), rows, use);
}

inline Tensor cast_to(Context& context, const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  return run(context, ops::cast, CastSetting{.dtype = dtype}, {tensor})[0];
}

// The numbers that an operand stands for, in fp32.
inline Tensor operand_numbers(Context& context, const Tensor& values, float scale,
                              const Shape& shape) {
  if (scale != 1)
    return apply_binary<Binary::multiply>(context, Tensor::full(context, Shape{1}, scale), values)
        .reshape(shape);
  return cast_to(context, values, DType::fp32).reshape(shape);
}

inline Tensor converted_kernel(Context& context, LinearFormats& formats, const Tensor& weight,
                               const QuantizedConvolutionSetting& setting) {
  const QuantizedLinearSetting how{
      .step = setting.step, .training = setting.training, .record = setting.record};
  const ConvertedOperand kernel =
      converted_weight(context, formats, kernel_rows(context, weight), false, how);
  return operand_numbers(context, kernel.values, kernel.scale, weight.shape());
}

// Outputs: y, x for the gradient of the weight, and its scale.
inline void quantized_convolution_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<QuantizedConvolutionSetting>();
  LinearFormats& formats = *setting.formats;
  Context& context = call.context;
  const Tensor &x = call.inputs[0], &weight = call.inputs[1];
  const ConvertedOperand input = convert_images(
      context, formats.x, formats.maximum, x, call.sequences,
      {.training = setting.training, .record = setting.record, .step = setting.step});
  const Tensor images = operand_numbers(context, input.values, input.scale, x.shape());
  const Tensor kernel = converted_kernel(context, formats, weight, setting);
  const Tensor y = setting.transposed
                       ? run(context, ops::convolution_transpose, setting.steps, {images, kernel},
                             call.sequences)[0]
                       : run(context, ops::convolution, setting.steps.steps,
                             {images, kernel, input_or_none(call.inputs, 2)}, call.sequences)[0];
  call.outputs[0] = cast_to(context, y, x.dtype());
  call.outputs[1] = setting.record ? input.values : Tensor::empty(context, Shape{0});
  call.outputs[2] = Tensor::scalar(context, input.scale);
}

inline void quantized_convolution_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<QuantizedConvolutionSetting>();
  LinearFormats& formats = *setting.formats;
  Context& context = call.context;
  const Tensor& dy = call.output_gradients[0];
  const Shape &shape = call.inputs[0].shape(), &weight_shape = call.inputs[1].shape();
  if (is_wanted(call, 0) || is_wanted(call, 1)) {
    const ConvertedOperand gradient =
        convert_images(context, formats.gradient, formats.maximum, dy, call.sequences,
                       {.training = setting.training, .record = true, .step = setting.step});
    const Tensor d = operand_numbers(context, gradient.values, gradient.scale, dy.shape());
    const Tensor x =
        operand_numbers(context, call.outputs[1], call.outputs[2].data<float>()[0], shape);
    const Tensor kernel = converted_kernel(context, formats, call.inputs[1], setting);
    Tensor dx, dweight;
    if (setting.transposed) {
      if (is_wanted(call, 0))
        dx = run(context, ops::convolution, setting.steps.steps, {d, kernel}, call.sequences)[0];
      if (is_wanted(call, 1))
        dweight = run(context, ops::convolution_backward, setting.steps.steps, {d, kernel, x},
                      call.sequences)[1];
    } else {
      const Outputs both = run(context, ops::convolution_backward, setting.steps.steps,
                               {x, kernel, d}, call.sequences);
      dx = both[0];
      dweight = both[1];
    }
    if (is_wanted(call, 0))
      call.input_gradients[0].values = cast_to(
          context, dx,
          call.sum_type(0).value_or(formats.input_gradient.value_or(call.inputs[0].dtype())));
    if (is_wanted(call, 1)) call.input_gradients[1].values = dweight;
  }
  if (is_wanted(call, 2))
    call.input_gradients[2].values = sum_to(context, cast_to(context, dy, DType::fp32),
                                            Shape{weight_shape[0], 1, 1}, call.sequences)
                                         .reshape(Shape{weight_shape[0]});
}

}  // namespace detail

namespace ops {

inline constexpr Operator quantized_convolution{.name = "quantized_convolution",
                                                .min_inputs = 2,
                                                .max_inputs = 3,
                                                .outputs = 3,
                                                .keeps_inputs = 2,
                                                .keeps_outputs = 6,
                                                .allocates_outputs = true,
                                                .composite = true,
                                                .batch_inputs = 1,
                                                .row_dimensions = RowDimensions::first,
                                                .shape = &detail::quantized_convolution_shape,
                                                .host = &detail::quantized_convolution_host,
                                                .gradient = &detail::quantized_convolution_gradient,
                                                .wide_gradients = true,
                                                .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
