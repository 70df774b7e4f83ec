#pragma once
// The functions of weight_norm.hpp.

#include <soma/nn/weight_norm.hpp>

#include <soma/autograd/choosing.hpp>
#include <soma/ops/support.hpp>

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE Var row_lengths(const Scope& scope, const Var& weight) {
  const Shape& shape = weight.shape();
  if (shape.rank() < 2)
    fail(error_id::tensor_rank, "WeightNorm", "weight", to_string(shape), "[rows, ...]");
  if (scope.later != nullptr)
    fail(error_id::operator_value, "WeightNorm", "scope", "parameters that are made later",
         "a layer whose weight has values");
  std::vector<std::size_t> sizes(shape.rank(), 1);
  sizes[0] = shape[0];
  const Tensor lengths = Tensor::empty(scope.context, Shape{std::span<const std::size_t>(sizes)});
  const Tensor values = soma::detail::plain_fp32(scope.context, weight.value());
  const std::size_t width = shape[0] == 0 ? 0 : shape.elements() / shape[0];
  const float* from = values.data<float>();
  float* to = lengths.mutable_data<float>();
  for (std::size_t row = 0; row < shape[0]; ++row, from += width) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i)
      squares += static_cast<double>(from[i]) * static_cast<double>(from[i]);
    to[row] = static_cast<float>(std::sqrt(squares));
  }
  return Var::parameter(scope.context, lengths);
}

SOMA_INLINE Var weight_of(Tape& tape, const Var& v, const Var& g) {
  const Shape& shape = v.shape();
  const std::size_t rows = shape[0];
  const Var flat =
      normalise(tape, reshape(tape, v, Shape{rows, rows == 0 ? 0 : shape.elements() / rows}), 1);
  return reshape(tape, mul(tape, flat, reshape(tape, g, Shape{rows, 1})), shape);
}

}  // namespace SOMA_NAMESPACE::nn::detail
