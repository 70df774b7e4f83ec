#pragma once
// The functions of elementwise.hpp.

#include <soma/nn/elementwise.hpp>

#include <soma/base/record.hpp>
#include <soma/nn/initial.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Var LeakyRelu::operator()(Tape& tape, const Var& x) const {
  return leaky_relu(tape, x, slope);
}

SOMA_INLINE void LeakyRelu::describe(Record& record) const { record.set("slope", slope); }

SOMA_INLINE Prelu::Prelu(const Scope& scope, std::size_t channels, float initial)
    : weight(initial_parameter(scope, Shape{channels}, {Initial::full(initial)})), path(scope) {}

SOMA_INLINE Var Prelu::operator()(Tape& tape, const Var& x) const {
  const auto within = tape.within(path.view());
  const Shape& shape = x.shape();
  const std::size_t channels = weight.shape()[0];
  if (shape.rank() < 2 || (channels != 1 && shape[1] != channels))
    fail(error_id::tensor_shape, "Prelu", "x", x.value().describe(),
         "[N, " + (channels == 1 ? std::string("C") : std::to_string(channels)) + ", ...]");
  std::vector<std::size_t> sizes(shape.rank() - 1, 1);
  sizes[0] = channels;
  // At 0 the weight is the slope, as in PyTorch: the first of two equal elements has the gradient.
  const Var zero = tape.constant(Tensor::zeros(tape.context(), Shape{1}, x.value().dtype()));
  return add(tape, maximum(tape, zero, x),
             mul(tape, reshape(tape, weight, Shape(std::span<const std::size_t>(sizes))),
                 minimum(tape, x, zero)));
}

SOMA_INLINE void Prelu::collect(Collector& collector) const {
  collector.add("weight", weight, ParameterRole::scale);
}

SOMA_INLINE Var Glu::operator()(Tape& tape, const Var& x) const { return glu(tape, x, dimension); }

SOMA_INLINE void Glu::describe(Record& record) const {
  record.set("dimension", std::uint64_t{dimension});
}

}  // namespace SOMA_NAMESPACE::nn
