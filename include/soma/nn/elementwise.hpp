#pragma once
// Functions without parameters as modules, for nn::Sequential.
//
//   model.add("1", soma::nn::Relu());
//   model.add("2", soma::nn::Elementwise<soma::laplace>());  // any such function

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/functions.hpp>
#include <soma/nn/scope.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

class Record;

namespace nn {

template <Var (*function)(Tape& tape, const Var& x)>
class Elementwise {
 public:
  Var operator()(Tape& tape, const Var& x) const { return function(tape, x); }
  void collect(Collector&) const {}
};

using Relu = Elementwise<&relu>;
using Relu6 = Elementwise<&relu6>;
using Elu = Elementwise<&elu>;
using Gelu = Elementwise<&gelu>;
using Silu = Elementwise<&silu>;
using Sigmoid = Elementwise<&sigmoid>;
using Softplus = Elementwise<&softplus>;
using Tanh = Elementwise<&tanh>;
using Softmax = Elementwise<&softmax>;         // over the last dimension
using LogSoftmax = Elementwise<&log_softmax>;  // the same

// x for x >= 0, else slope x.
class LeakyRelu {
 public:
  explicit LeakyRelu(float below = 0.01f) : slope(below) {}
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}
  void describe(Record& record) const;

  float slope;
};

// Like LeakyRelu, with a slope for each channel of x [N, C, ...], or one for all, that is trained.
// arXiv 1502.01852.
class Prelu {
 public:
  Prelu() = default;
  explicit Prelu(const Scope& scope, std::size_t channels = 1, float initial = 0.25f);
  // Errors tensor.rank, tensor.shape.
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector& collector) const;

  Var weight;  // [channels]
  LayerPath path{};
};

// x itself: for a place in a model that may stay empty.
class Identity {
 public:
  Var operator()(Tape&, const Var& x) const { return x; }
  void collect(Collector&) const {}
};

// The two halves of x along a dimension: the first times the sigmoid of the second.
class Glu {
 public:
  explicit Glu(std::size_t along) : dimension(along) {}
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}
  void describe(Record& record) const;

  std::size_t dimension;
};

}  // namespace nn
}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/elementwise.ipp>
#endif
