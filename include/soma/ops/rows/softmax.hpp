#pragma once
// Softmax and log softmax over the last dimension.

#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline void softmax_shape(const ShapeCall& call) {
  check_min_rank("softmax", "x", call.inputs[0], 1);
  check_floating("softmax", "x", call.inputs[0]);
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

inline void softmax_host(const OperatorCall& call) {
  const TensorRows x = rows_of(call.context, call.inputs[0]);
  const MatrixTarget y = target(call.outputs[0]);
  const std::size_t columns = x.shape().columns();
  for_ranges(call.context, x.shape().rows(), columns * 16, [&](std::size_t begin, std::size_t end) {
    call.context.kernels().norm.softmax(
        {.rows = end - begin,
         .columns = columns,
         .logarithm = call.attributes.as<SoftmaxSetting>().logarithm,
         .x = part(operand(x), begin, 0),
         .y = part(y, begin, 0)});
  });
}

// Inputs y, dy; output dx.
inline void softmax_backward_shape(const ShapeCall& call) {
  check_shape("softmax backward", "dy", call.inputs[1], call.inputs[0].shape());
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}
inline void softmax_backward_host(const OperatorCall& call) {
  const TensorRows y = rows_of(call.context, call.inputs[0]),
                   dy = rows_of(call.context, call.inputs[1]);
  const MatrixTarget dx = target(call.outputs[0]);
  const std::size_t columns = y.shape().columns();
  for_ranges(call.context, y.shape().rows(), columns * 4, [&](std::size_t begin, std::size_t end) {
    call.context.kernels().norm.softmax_backward(
        {.rows = end - begin,
         .columns = columns,
         .logarithm = call.attributes.as<SoftmaxSetting>().logarithm,
         .y_in = part(operand(y), begin, 0),
         .dy = part(operand(dy), begin, 0),
         .dx = part(dx, begin, 0)});
  });
}

inline void softmax_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator softmax_backward{.name = "softmax backward",
                                           .min_inputs = 2,
                                           .max_inputs = 2,
                                           .shape = &detail::softmax_backward_shape,
                                           .host = &detail::softmax_backward_host};

inline constexpr Operator softmax{.name = "softmax",
                                  .keeps_outputs = 1,
                                  .shape = &detail::softmax_shape,
                                  .host = &detail::softmax_host,
                                  .gradient = &detail::softmax_gradient,
                                  .wide_gradients = true,
                                  .built_in_samples = true};

}  // namespace ops

inline void detail::softmax_gradient(const GradientCall& call) {
  call.input_gradients[0].values = run(call.context, ops::softmax_backward, call.attributes,
                                       {call.outputs[0], call.output_gradients[0]})[0];
}

}  // namespace SOMA_NAMESPACE
