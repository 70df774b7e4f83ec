#pragma once
// Element-wise functions of one tensor: y = f(x), of x's type. Computed in fp32, rounded once.

#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {
namespace detail {

// "relu backward", with static lifetime.
template <Unary function>
struct BackwardName {
  static constexpr std::string_view forward = describe(function).name, suffix = " backward";
  static constexpr auto text = [] {
    std::array<char, forward.size() + suffix.size()> joined{};
    std::copy(suffix.begin(), suffix.end(),
              std::copy(forward.begin(), forward.end(), joined.begin()));
    return joined;
  }();
  static constexpr std::string_view name{text.data(), text.size()};
};
template <std::size_t... i>
constexpr std::array<std::string_view, sizeof...(i)> backward_names(std::index_sequence<i...>) {
  return {BackwardName<static_cast<Unary>(i)>::name...};
}
constexpr std::string_view backward_name(Unary function) {
  return backward_names(
      std::make_index_sequence<unary_count>())[static_cast<std::size_t>(function)];
}

// The function is a run-time parameter, so that the code is compiled once and not for each
// function.
inline void unary_shape(const ShapeCall& call, Unary function) {
  check_floating(describe(function).name, "x", call.inputs[0]);
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

inline void unary_host(const OperatorCall& call, Unary function) {
  const TensorRows x = rows_of(call.context, call.inputs[0]);
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
  check_shape(backward_name(function), "dy", call.inputs[1], call.inputs[0].shape());
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

inline void unary_backward_host(const OperatorCall& call, Unary function) {
  const TensorRows x = rows_of(call.context, call.inputs[0]);
  const TensorRows dy = rows_of(call.context, call.inputs[1]);
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

template <Unary function>
void unary_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

// Inputs x, dy; output dx = dy f'(x).
template <Unary function>
inline constexpr Operator unary_backward{
    .name = detail::BackwardName<function>::name,
    .min_inputs = 2,
    .max_inputs = 2,
    .shape = [](const ShapeCall& call) { detail::unary_backward_shape(call, function); },
    .host = [](const OperatorCall& call) { detail::unary_backward_host(call, function); }};

template <Unary function>
constexpr Operator OfUnary<function>::record{
    .name = describe(function).name,
    .keeps_inputs = 1,
    .shape = [](const ShapeCall& call) { detail::unary_shape(call, function); },
    .host = [](const OperatorCall& call) { detail::unary_host(call, function); },
    .gradient = &detail::unary_gradient<function>,
    .wide_gradients = true,
    .built_in_samples = true};
template <Unary function>
inline constexpr const Operator& unary = OfUnary<function>::record;

}  // namespace ops

namespace detail {

template <std::size_t... i>
constexpr std::array<const Operator*, sizeof...(i)> unary_backwards(std::index_sequence<i...>) {
  return {&ops::unary_backward<static_cast<Unary>(i)>...};
}
// The operator of a function's gradient.
inline const Operator& unary_backward_of(Unary function) {
  static constexpr auto records = unary_backwards(std::make_index_sequence<unary_count>());
  return *records[static_cast<std::size_t>(function)];
}

}  // namespace detail

template <Unary function>
void detail::unary_gradient(const GradientCall& call) {
  call.input_gradients[0].values = run(call.context, ops::unary_backward<function>, {},
                                       {call.inputs[0], call.output_gradients[0]})[0];
}

}  // namespace SOMA_NAMESPACE
