#pragma once
// Element-wise functions of one tensor: y = f(x), of x's type. Computed in fp32, rounded once.

#include <soma/ops/run.hpp>
#include <soma/ops/samples.hpp>
#include <soma/ops/support.hpp>

#include <cmath>
#include <cstddef>
#include <numbers>
#include <string_view>

namespace soma {
namespace detail {

struct UnaryNames {
  std::string_view forward, backward;
};
inline constexpr UnaryNames unary_names[] = {
    {"copy", "copy backward"},
    {"negate", "negate backward"},
    {"absolute", "absolute backward"},
    {"square", "square backward"},
    {"square_root", "square_root backward"},
    {"reciprocal", "reciprocal backward"},
    {"exponential", "exponential backward"},
    {"logarithm", "logarithm backward"},
    {"sine", "sine backward"},
    {"cosine", "cosine backward"},
    {"relu", "relu backward"},
    {"gelu", "gelu backward"},
    {"gelu_tanh", "gelu_tanh backward"},
    {"tanh", "tanh backward"},
    {"sigmoid", "sigmoid backward"},
    {"silu", "silu backward"},
    {"softplus", "softplus backward"},
};

// Which function is a parameter here, so that all is compiled once and not for each.
inline void unary_shape(const ShapeCall& call, Unary function) {
  check_floating(unary_names[static_cast<std::size_t>(function)].forward, "x", call.inputs[0]);
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

inline void unary_host(const OperatorCall& call, Unary function) {
  const Tensor x = regular(call.context, call.inputs[0]);
  const MatrixOperand from = operand(x);
  const MatrixTarget to = target(call.outputs[0]);
  for_elements(call.context, x.shape(), x.contiguous(), 8,
               [&](std::size_t row, std::size_t column, std::size_t rows, std::size_t columns) {
                 call.context.kernels().element.unary({.function = function,
                                                       .rows = rows,
                                                       .columns = columns,
                                                       .x = part(from, row, column),
                                                       .y = part(to, row, column)});
               });
}

inline void unary_backward_shape(const ShapeCall& call, Unary function) {
  check_shape(unary_names[static_cast<std::size_t>(function)].backward, "dy", call.inputs[1],
              call.inputs[0].shape());
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

inline void unary_backward_host(const OperatorCall& call, Unary function) {
  const Tensor x = regular(call.context, call.inputs[0]);
  const Tensor dy = regular(call.context, call.inputs[1]);
  const MatrixOperand from = operand(x), gradient = operand(dy);
  const MatrixTarget to = target(call.outputs[0]);
  for_elements(call.context, x.shape(), x.contiguous() && dy.contiguous(), 8,
               [&](std::size_t row, std::size_t column, std::size_t rows, std::size_t columns) {
                 call.context.kernels().element.unary_backward({.function = function,
                                                                .rows = rows,
                                                                .columns = columns,
                                                                .x = part(from, row, column),
                                                                .y = part(to, row, column),
                                                                .dy = part(gradient, row, column)});
               });
}

inline double unary_value(Unary function, double x) {
  switch (function) {
    case Unary::copy:
      return x;
    case Unary::negate:
      return -x;
    case Unary::absolute:
      return std::fabs(x);
    case Unary::square:
      return x * x;
    case Unary::square_root:
      return std::sqrt(x);
    case Unary::reciprocal:
      return 1 / x;
    case Unary::exponential:
      return std::exp(x);
    case Unary::logarithm:
      return std::log(x);
    case Unary::sine:
      return std::sin(x);
    case Unary::cosine:
      return std::cos(x);
    case Unary::relu:
      return x > 0 ? x : x != x ? x : 0;
    case Unary::gelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Unary::gelu_tanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Unary::tanh:
      return std::tanh(x);
    case Unary::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Unary::silu:
      return x / (1 + std::exp(-x));
    case Unary::softplus:
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  }
  return x;
}

inline std::vector<Sample> unary_inputs(Unary function) {
  // Where logarithm and roots live, or on both sides of zero but not at kinks.
  const bool positive = function == Unary::square_root || function == Unary::logarithm ||
                        function == Unary::reciprocal;
  const double low = positive ? 0.1 : -6, high = 6;
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{1}, Shape{7, 31}, Shape{2, 3, 17}})
    samples.push_back({.name = to_string(shape),
                       .inputs = {{.shape = shape, .low = low, .high = high}},
                       .attributes = {},
                       .lengths = {},
                       .error = 8 * 0x1p-24,
                       .gradient_error = 16 * 0x1p-24});
  return samples;
}
template <Unary function>
OperatorSamples unary_samples() {
  OperatorSamples result{.samples = unary_inputs(function), .reference = {}};
  result.reference = [](const Sample&, const std::vector<ReferenceTensor>& inputs) {
    std::vector<ReferenceTensor> outputs{inputs[0]};
    for (double& value : outputs[0].values) value = unary_value(function, value);
    return outputs;
  };
  return result;
}

template <Unary function>
void unary_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

// Inputs x, dy; output dx = dy f'(x).
template <Unary function>
inline constexpr Operator unary_backward{
    .name = detail::unary_names[static_cast<std::size_t>(function)].backward,
    .min_inputs = 2,
    .max_inputs = 2,
    .shape = [](const ShapeCall& call) { detail::unary_backward_shape(call, function); },
    .host = [](const OperatorCall& call) { detail::unary_backward_host(call, function); }};

template <Unary function>
inline constexpr Operator unary{
    .name = detail::unary_names[static_cast<std::size_t>(function)].forward,
    .keeps_inputs = 1,
    .shape = [](const ShapeCall& call) { detail::unary_shape(call, function); },
    .host = [](const OperatorCall& call) { detail::unary_host(call, function); },
    .gradient = &detail::unary_gradient<function>,
    .samples = &detail::unary_samples<function>};

}  // namespace ops

template <Unary function>
void detail::unary_gradient(const GradientCall& call) {
  call.input_gradients[0].values = run(call.context, ops::unary_backward<function>, {},
                                       {call.inputs[0], call.output_gradients[0]})[0];
}

}  // namespace soma
