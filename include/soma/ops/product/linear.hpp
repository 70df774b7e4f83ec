#pragma once
// Linear: y = dropout(activation(x W^T + b)) + residual, one matrix product with everything else
// fused into its epilogue. x [..., K], W [N, K], b [N], residual [..., N].

#include <soma/kernels/gemm/multiply.hpp>
#include <soma/ops/element/dropout.hpp>
#include <soma/ops/element/unary.hpp>
#include <soma/ops/product/matmul.hpp>
#include <soma/ops/product/packed_weights.hpp>
#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// Inputs x, weight, bias, residual; the last two are optional.
inline void linear_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<LinearSetting>();
  const Tensor &x = call.inputs[0], &weight = call.inputs[1];
  check_min_rank("linear", "x", x, 1);
  check_floating("linear", "x", x);
  check_rank("linear", "weight", weight, 2);
  if (x.shape().columns() != weight.size(1))
    fail(error_id::tensor_shape, "linear", "x", x.describe(),
         "[..., " + std::to_string(weight.size(1)) + "] for the weight, " + weight.describe());
  const Shape shape = x.shape().with(x.rank() - 1, weight.size(0));
  if (call.inputs.size() > 2 && call.inputs[2].defined())
    check_shape("linear", "bias", call.inputs[2], Shape{weight.size(0)});
  if (call.inputs.size() > 3 && call.inputs[3].defined())
    check_shape("linear", "residual", call.inputs[3], shape);
  check_accumulation("linear", setting.accumulation);
  const DType dtype = setting.output.value_or(x.dtype());
  check_output("linear", dtype);
  call.outputs[0] = {shape, dtype};
  // The input of the activation, for its gradient.
  call.outputs[1] = {setting.activation == Activation::none ? Shape{0} : shape, dtype};
}

inline void linear_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<LinearSetting>();
  Context& context = call.context;
  const TensorRows x = rows_of(context, call.inputs[0]);
  const TensorRows weight = rows_of(context, call.inputs[1]);
  const Tensor bias = call.inputs.size() > 2 ? plain_fp32(context, call.inputs[2]) : Tensor();
  const TensorRows residual = rows_of(context, input_or_none(call.inputs, 3));
  const Tensor& y = call.outputs[0];
  GemmArgs args{.m = x.shape().rows(), .n = weight.rows(), .k = weight.columns()};
  args.a = operand(x);
  args.b = transposed(operand(weight));
  args.a.scale = setting.x_scale;
  args.b.scale = setting.weight_scale;
  args.c = target(y);
  args.accumulation = setting.accumulation;
  args.epilogue.bias = floats(bias);
  args.epilogue.activation = setting.activation;
  args.epilogue.dropout = dropout_args(setting.dropout, call.sequences, args.m, args.n);
  if (residual.defined()) args.epilogue.residual = operand(residual);
  if (setting.activation != Activation::none)
    args.epilogue.pre_activation = target(call.outputs[1]);
  PackedWeights::Panels panels{};
  if (setting.packed != nullptr) panels = setting.packed->take(args, call.inputs[1]);
  args.packed_b = panels.packed;
  multiply(context, args);
}

inline double linear_operations(const OperatorCall& call) {
  return 2.0 * static_cast<double>(call.outputs[0].elements()) *
         static_cast<double>(call.inputs[1].size(1));
}

inline Tensor activation_gradient(Context& context, Activation activation, const Tensor& x,
                                  const Tensor& dy) {
  if (activation == Activation::none) return dy;
  return run(context, unary_backward_of(unary_of(activation)), {}, {x, dy})[0];
}

// The gradient of the matrix product's result, from the gradient of the layer's result.
inline Tensor product_gradient(const GradientCall& call, Activation activation,
                               const DropoutSetting& dropout) {
  Tensor d = call.output_gradients[0];
  if (dropout.probability > 0) d = run(call.context, ops::dropout, dropout, {d}, call.sequences)[0];
  return activation_gradient(call.context, activation, call.outputs[1], d);
}

inline bool is_wanted(const GradientCall& call, std::size_t input) {
  return input < call.inputs.size() && call.wanted[input];
}

// The gradients of bias and residual, from the gradient of the product's result, as rows.
inline void addend_gradients(const GradientCall& call, const Tensor& rows) {
  if (is_wanted(call, 2))
    call.input_gradients[2].values =
        sum_to(call.context, rows, call.inputs[2].shape(), call.sequences);
  if (is_wanted(call, 3)) call.input_gradients[3].values = call.output_gradients[0];
}

inline void linear_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<LinearSetting>();
  Context& context = call.context;
  const Tensor d = product_gradient(call, setting.activation, setting.dropout);
  const Tensor rows = as_rows(context, d);
  if (is_wanted(call, 0))
    call.input_gradients[0].values = run(context, ops::matmul,
                                         MatmulSetting{.a = {.scale = setting.x_scale},
                                                       .b = {.scale = setting.weight_scale},
                                                       .output = call.sum_type(0),
                                                       .accumulation = setting.accumulation},
                                         {rows, call.inputs[1]}, call.sequences)[0]
                                         .reshape(call.inputs[0].shape());
  if (is_wanted(call, 1))
    call.input_gradients[1].values =
        run(context, ops::matmul,
            MatmulSetting{.transpose_a = true,
                          .over_rows = true,
                          .a = {.scale = setting.weight_scale},
                          .b = {.scale = setting.x_scale},
                          .output = call.sum_type(1),
                          .accumulation = setting.accumulation},
            {rows, as_rows(context, call.inputs[0])}, call.sequences)[0];
  addend_gradients(call, rows);
}

// As of matmul. The gradient of the product's result reads the input of the activation.
inline KeptTensors linear_keeps(std::uint32_t wanted) {
  return {.inputs = other_operand(wanted).inputs, .outputs = 2};
}

}  // namespace detail

namespace ops {

inline constexpr Operator linear{.name = "linear",
                                 .min_inputs = 2,
                                 .max_inputs = 4,
                                 .outputs = 2,
                                 .keeps_inputs = 3,
                                 .keeps_outputs = 2,
                                 .keeps_for = &detail::linear_keeps,
                                 .batch_inputs = 1 | 8,
                                 .shape = &detail::linear_shape,
                                 .host = &detail::linear_host,
                                 .gradient = &detail::linear_gradient,
                                 .wide_gradients = true,
                                 .built_in_samples = true,
                                 .operations = &detail::linear_operations};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
