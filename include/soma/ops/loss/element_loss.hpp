#pragma once
// Element-wise losses: squared and absolute errors, Huber's and hinge, divergence of probabilities,
// binary cross entropy of logits with probabilities. Formulas: kernels/loss/args.hpp.

#include <soma/ops/loss/loss.hpp>
#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline void element_loss_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<ElementLossSetting>();
  check_floating("element_loss", "x", call.inputs[0]);
  check_floating("element_loss", "target", call.inputs[1]);
  check_shape("element_loss", "target", call.inputs[1], call.inputs[0].shape());
  const float parameter = setting.parameter;
  if (has_parameter(setting.loss) && setting.loss != ElementLoss::hinge && !(parameter > 0))
    fail(error_id::operator_value, "element_loss", "parameter", std::to_string(parameter),
         "a finite number above 0");
  call.outputs[0] = {setting.reduction == LossReduction::none ? call.inputs[0].shape() : Shape{},
                     DType::fp32};
}

inline void element_loss_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<ElementLossSetting>();
  Context& context = call.context;
  const TensorRows x = rows_of(context, call.inputs[0]), t = rows_of(context, call.inputs[1]);
  const bool each = setting.reduction == LossReduction::none;
  const Tensor losses = each ? call.outputs[0] : Tensor::empty(context, x.shape());
  float* out = losses.mutable_data<float>();
  const std::size_t columns = x.shape().columns();
  for_ranges(context, x.shape().rows(), columns * 8, [&](std::size_t begin, std::size_t end) {
    context.kernels().loss.element_loss({.loss = setting.loss,
                                         .rows = end - begin,
                                         .columns = columns,
                                         .parameter = setting.parameter,
                                         .x = part(operand(x), begin, 0),
                                         .target = part(operand(t), begin, 0),
                                         .losses = out + begin * columns});
  });
  if (each) return;
  const Tensor total = run(context, ops::reduce, ReduceSetting{}, {losses}, call.sequences)[0];
  *call.outputs[0].mutable_data<float>() =
      total.item<float>() / loss_denominator(setting.reduction, setting.denominator, x.elements());
}

// Inputs x, target, dloss; output dx.
inline void element_loss_backward_shape(const ShapeCall& call) {
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}
inline void element_loss_backward_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<ElementLossSetting>();
  Context& context = call.context;
  const TensorRows x = rows_of(context, call.inputs[0]), t = rows_of(context, call.inputs[1]);
  const Tensor dloss = contiguous(context, call.inputs[2]);
  const bool each = setting.reduction == LossReduction::none;
  const float factor =
      each ? 1
           : dloss.item<float>() /
                 loss_denominator(setting.reduction, setting.denominator, x.elements());
  const MatrixTarget dx = target(call.outputs[0]);
  const std::size_t columns = x.shape().columns();
  for_ranges(context, x.shape().rows(), columns * 8, [&](std::size_t begin, std::size_t end) {
    context.kernels().loss.element_loss_backward(
        {.loss = setting.loss,
         .rows = end - begin,
         .columns = columns,
         .parameter = setting.parameter,
         .x = part(operand(x), begin, 0),
         .target = part(operand(t), begin, 0),
         .factor = factor,
         .factors = each ? dloss.data<float>() + begin * columns : nullptr,
         .dx = part(dx, begin, 0)});
  });
}

inline void element_loss_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator element_loss_backward{.name = "element_loss backward",
                                                .min_inputs = 3,
                                                .max_inputs = 3,
                                                .shape = &detail::element_loss_backward_shape,
                                                .host = &detail::element_loss_backward_host};

inline constexpr Operator element_loss{.name = "element_loss",
                                       .min_inputs = 2,
                                       .max_inputs = 2,
                                       .keeps_inputs = 3,
                                       .shape = &detail::element_loss_shape,
                                       .host = &detail::element_loss_host,
                                       .gradient = &detail::element_loss_gradient,
                                       .wide_gradients = true,
                                       .built_in_samples = true};

}  // namespace ops

// Targets are data: a request for their gradient is an error rather than a silent zero.
inline void detail::element_loss_gradient(const GradientCall& call) {
  if (call.wanted[1])
    fail(error_id::not_differentiable, "element_loss", "target", "a variable with a gradient",
         "a constant (Tape::detach)");
  call.input_gradients[0].values =
      run(call.context, ops::element_loss_backward, call.attributes,
          {call.inputs[0], call.inputs[1], call.output_gradients[0]}, call.sequences)[0];
}

}  // namespace SOMA_NAMESPACE
