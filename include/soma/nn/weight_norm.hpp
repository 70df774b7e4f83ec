#pragma once
// WeightNorm: a layer whose weight is a direction and a length for each of its rows (arXiv
// 1602.07868), both of which are trained.
//
//   soma::nn::WeightNorm layer(scope, soma::nn::Conv1d(scope / "conv", 64, 128, 3));
//   y = layer(tape, x);  // parameters conv.weight_g, conv.weight_v, conv.bias

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/functions.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/scope.hpp>

#include <utility>

namespace SOMA_NAMESPACE::nn {

namespace detail {

// [rows, 1, ...]: the length of each row of a weight [rows, ...], of any floating type, in fp32.
Var row_lengths(const Scope& scope, const Var& weight);
// g v / (length of v), row by row.
Var weight_of(Tape& tape, const Var& v, const Var& g);

}  // namespace detail

// Layer: a module with a member `weight` of two dimensions or more, such as Linear, Conv1d, Conv2d,
// ConvTranspose2d. At first the weight is the layer's own. A row of zeros stays at zero.
template <class Layer>
class WeightNorm {
 public:
  WeightNorm() = default;
  // Errors tensor.rank, operator.value: parameters that are made later (Scope::later).
  WeightNorm(const Scope& scope, Layer of)
      : layer(std::move(of)),
        weight_v(layer.weight),
        weight_g(detail::row_lengths(scope, layer.weight)) {}

  template <class... Arguments>
  Var operator()(Tape& tape, const Var& x, const Arguments&... arguments) const {
    Layer normed(layer);
    normed.weight = detail::weight_of(tape, weight_v, weight_g);
    return normed(tape, x, arguments...);
  }
  void collect(Collector& collector) const {
    collector.add("weight_g", weight_g, ParameterRole::scale);
    collector.add("weight_v", weight_v, ParameterRole::weight);
    if constexpr (requires { layer.bias; }) collector.add("bias", layer.bias, ParameterRole::bias);
  }
  void describe(Record& record) const {
    if constexpr (requires { layer.describe(record); }) layer.describe(record);
  }

  Layer layer;
  Var weight_v, weight_g;  // the weight's shape; [rows, 1, ...]
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/weight_norm.ipp>
#endif
