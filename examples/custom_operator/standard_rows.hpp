// A function on tensors with attributes and with a value that is saved for the gradient. Each row
// gets mean 0 and standard deviation 1, however dark the ink and the paper of an image are.
#pragma once

#include <soma/api.hpp>

#include <cmath>

namespace example {

struct Standard {
  float epsilon = 1e-3f;  // added to the variance
};

// Maps x [R, C] to y [R, C], and saves 1 / standard deviation [R] for the gradient.
inline void standard_shape(const soma::ShapeCall& call, const Standard&) {
  const soma::Tensor& x = call.inputs[0];
  if (x.rank() != 2)
    soma::fail(soma::error_id::tensor_rank, "example::standard_rows", "x", x.describe(), "rank 2");
  call.outputs[0] = {x.shape(), x.dtype()};
  call.outputs[1] = {soma::Shape{x.size(0)}, soma::DType::fp32};
}
inline void standard_host(const soma::OperatorCall& call, const Standard& standard) {
  const auto x = call.inputs[0].view<float>();
  const auto y = call.outputs[0].mutable_view<float>();
  const auto scale = call.outputs[1].mutable_view<float>();
  const std::size_t columns = x.shape[1];
  for (std::size_t r = 0; r < x.shape[0]; ++r) {
    double sum = 0, squares = 0;
    for (std::size_t c = 0; c < columns; ++c) sum += x(r, c), squares += double{x(r, c)} * x(r, c);
    const double mean = sum / double(columns), variance = squares / double(columns) - mean * mean;
    scale(r) = float(1 / std::sqrt(variance + double{standard.epsilon}));
    for (std::size_t c = 0; c < columns; ++c) y(r, c) = float(x(r, c) - mean) * scale(r);
  }
}
// dx = scale (dy - mean(dy) - y mean(dy y))
inline void standard_gradient(const soma::GradientCall& call, const Standard&) {
  const auto y = call.outputs[0].view<float>(), scale = call.outputs[1].view<float>();
  const auto dy = call.output_gradients[0].view<float>();
  const std::size_t columns = y.shape[1];
  call.input_gradients[0].values = soma::Tensor::empty(call.context, y.shape);
  const auto dx = call.input_gradients[0].values.mutable_view<float>();
  for (std::size_t r = 0; r < y.shape[0]; ++r) {
    double sum = 0, dot = 0;
    for (std::size_t c = 0; c < columns; ++c) sum += dy(r, c), dot += double{dy(r, c)} * y(r, c);
    const double mean = sum / double(columns), slope = dot / double(columns);
    for (std::size_t c = 0; c < columns; ++c)
      dx(r, c) = float(scale(r) * (dy(r, c) - mean - y(r, c) * slope));
  }
}
inline soma::OperatorFunction<Standard> register_standard_rows(soma::Context& context) {
  return soma::register_operator(context.operators(), "example::standard_rows",
                                 soma::CustomOperator<Standard>{.outputs = 2,
                                                                .shape = &standard_shape,
                                                                .host = &standard_host,
                                                                .gradient = &standard_gradient,
                                                                .keeps_inputs = 0});
}

}  // namespace example
