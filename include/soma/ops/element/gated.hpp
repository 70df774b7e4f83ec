#pragma once
// The gate of a feed-forward part (SwiGLU, arXiv 2002.05202): y = silu(a) b, where x [..., 2 I]
// holds a in its first I columns and b in the last, and y is [..., I] of x's type. One pass,
// computed in fp32 and rounded once; the gradient reads x alone.
//
// Errors tensor.rank, tensor.dtype, tensor.shape (an odd number of columns).

#include <soma/ops/run.hpp>
#include <soma/ops/support.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

namespace detail {

inline void gated_shape(const ShapeCall& call) {
  const Tensor& x = call.inputs[0];
  check_min_rank("gated", "x", x, 1);
  check_floating("gated", "x", x);
  const std::size_t columns = x.shape().columns();
  if (columns % 2 != 0)
    fail(error_id::tensor_shape, "gated", "x", x.describe(), "an even number of columns");
  call.outputs[0] = {x.shape().with(x.rank() - 1, columns / 2), x.dtype()};
}

inline void gated_host(const OperatorCall& call) {
  const TensorRows x = rows_of(call.context, call.inputs[0]);
  const MatrixTarget y = target(call.outputs[0]);
  const std::size_t columns = x.columns() / 2;
  for_ranges(call.context, x.rows(), columns * 12, [&](std::size_t begin, std::size_t end) {
    call.context.kernels().element.gated({.rows = end - begin,
                                          .columns = columns,
                                          .x = part(operand(x), begin, 0),
                                          .y = part(y, begin, 0)});
  });
}

// Inputs x, dy; output dx.
inline void gated_backward_shape(const ShapeCall& call) {
  const Shape& shape = call.inputs[0].shape();
  check_shape("gated backward", "dy", call.inputs[1],
              shape.with(shape.rank() - 1, shape.columns() / 2));
  call.outputs[0] = {shape, call.inputs[0].dtype()};
}
inline void gated_backward_host(const OperatorCall& call) {
  const TensorRows x = rows_of(call.context, call.inputs[0]),
                   dy = rows_of(call.context, call.inputs[1]);
  const MatrixTarget dx = target(call.outputs[0]);
  const std::size_t columns = x.columns() / 2;
  for_ranges(call.context, x.rows(), columns * 16, [&](std::size_t begin, std::size_t end) {
    call.context.kernels().element.gated_backward({.rows = end - begin,
                                                   .columns = columns,
                                                   .x = part(operand(x), begin, 0),
                                                   .dy = part(operand(dy), begin, 0),
                                                   .dx = part(dx, begin, 0)});
  });
}

inline void gated_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator gated_backward{.name = "gated backward",
                                         .min_inputs = 2,
                                         .max_inputs = 2,
                                         .shape = &detail::gated_backward_shape,
                                         .host = &detail::gated_backward_host};

inline constexpr Operator gated{.name = "gated",
                                .keeps_inputs = 1,
                                .shape = &detail::gated_shape,
                                .host = &detail::gated_host,
                                .gradient = &detail::gated_gradient,
                                .wide_gradients = true,
                                .built_in_samples = true};

}  // namespace ops

inline void detail::gated_gradient(const GradientCall& call) {
  call.input_gradients[0].values =
      run(call.context, ops::gated_backward, {}, {call.inputs[0], call.output_gradients[0]})[0];
}

}  // namespace SOMA_NAMESPACE
