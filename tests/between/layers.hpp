// Layers of random models that are no single layer of the library: around others, in another layout,
// with a parameter of their own, or run again in backward.
#pragma once

#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include <span>

namespace soma_test {

struct OfSequence {  // a recurrent layer's rows
  bool lstm;
  soma::nn::Gru gru;
  soma::nn::Lstm memory;
  soma::Var operator()(soma::Tape& tape, const soma::Var& x) const {
    return lstm ? memory(tape, x).rows : gru(tape, x).rows;
  }
  void collect(soma::nn::Collector& collector) const {
    if (lstm)
      collector.part("lstm", memory);
    else
      collector.part("gru", gru);
  }
};
struct Residual {
  soma::nn::Linear linear;
  soma::Var operator()(soma::Tape& tape, const soma::Var& x) const {
    return linear(tape, x, {.activation = soma::Activation::gelu}, x);
  }
  void collect(soma::nn::Collector& collector) const { collector.part("linear", linear); }
};
struct AlongTime {  // [B, T, C] through a convolution of one dimension
  soma::nn::Conv1d conv;
  soma::Var operator()(soma::Tape& tape, const soma::Var& x) const {
    return transpose(tape, conv(tape, transpose(tape, x, 1, 2)), 1, 2);
  }
  void collect(soma::nn::Collector& collector) const { collector.part("conv", conv); }
};
struct TimeFirst {  // [B, T, C] as [T, B, C]: the batch in the middle, and T may be B
  soma::nn::Linear linear;
  soma::nn::Dropout dropout;
  soma::Var operator()(soma::Tape& tape, const soma::Var& x) const {
    const soma::Var y = dropout(tape, linear(tape, transpose(tape, x, 0, 1)));
    return transpose(tape, y, 0, 1);
  }
  void collect(soma::nn::Collector& collector) const { collector.part("linear", linear); }
};
struct Projection {  // a product with a parameter that is no nn::Linear
  soma::Var weight;
  soma::Var operator()(soma::Tape& tape, const soma::Var& x) const {
    return matmul(tape, x, weight);
  }
  void collect(soma::nn::Collector& collector) const {
    collector.add("weight", weight, soma::ParameterRole::weight);
  }
};

enum class Use { frozen, shared, unused, broadcast };
struct Parametrised {  // uses its parameter otherwise than a layer does
  Use use;
  soma::Var weight;
  soma::Var operator()(soma::Tape& tape, const soma::Var& x) const {
    switch (use) {
      case Use::frozen:
        return linear(tape, x, tape.constant(weight.value()));
      case Use::shared:
        return matmul(tape, tanh(tape, linear(tape, x, weight)), transpose(tape, weight, 0, 1));
      case Use::broadcast:
        return add(tape, mul(tape, x, weight), weight);
      default:
        return x;
    }
  }
  void collect(soma::nn::Collector& collector) const {
    collector.add("weight", weight, soma::ParameterRole::weight);
  }
};

// A layer that runs again in backward.
template <class Layer>
struct Again {
  Layer layer;
  soma::Var operator()(soma::Tape& tape, const soma::Var& x) const {
    const soma::Var inputs[] = {x};
    const auto run = [layer = layer](soma::Tape& inner, std::span<const soma::Var> given) {
      return layer(inner, given[0]);
    };
    return recompute(tape, inputs, run);
  }
  void collect(soma::nn::Collector& collector) const {
    if constexpr (requires { layer.collect(collector); }) layer.collect(collector);
  }
  void describe(soma::Record& record) const {
    if constexpr (requires { layer.describe(record); }) layer.describe(record);
  }
};

}  // namespace soma_test
