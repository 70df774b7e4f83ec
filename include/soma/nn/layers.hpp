#pragma once
// The small modules: Linear, Embedding, LayerNorm, Dropout, Conv2d. A module holds its parameters
// as variables and is called with a tape; copies share parameters.

#include <soma/autograd/functions.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/product_site.hpp>
#include <soma/nn/scope.hpp>

#include <cstddef>
#include <optional>

namespace soma::nn {

struct LinearOptions {
  bool bias = true;
  // Standard deviation of normally distributed initial weights, with zero biases; not set:
  // lecun_uniform for weights and biases.
  std::optional<float> standard_deviation{};
  bool edge = false;  // the first or the last layer of a model (nn/product_site.hpp)
};

// [..., in] to [..., out].
class Linear {
 public:
  Linear() = default;
  Linear(const Scope& scope, std::size_t in, std::size_t out, const LinearOptions& options = {})
      : site(scope, options.edge) {
    const Draw draw = scope.draw("weight");
    const float bound = detail::root_of_ratio(1, in);  // lecun_uniform
    weight = initial_parameter(
        scope, Shape{out, in},
        {options.standard_deviation ? Initial::normal(*options.standard_deviation, draw)
                                    : Initial::uniform(bound, draw)});
    if (options.bias)
      bias = initial_parameter(
          scope, Shape{out},
          {options.standard_deviation ? Initial::full(0)
                                      : Initial::uniform(bound, scope.draw("bias"))});
  }
  Var operator()(Tape& tape, const Var& x, const LinearSetting& setting = {},
                 const Var& residual = {}) const {
    const auto within = tape.within(site.path());
    return linear_at(site, tape, x, weight, bias, setting, residual);
  }
  void collect(Collector& collector) const {
    collector.add("weight", weight, ParameterRole::weight);
    collector.add("bias", bias, ParameterRole::bias);
  }

  Var weight, bias;  // [out, in], [out]
  ProductSite site;
};

// Ids of any shape to [..., width].
class Embedding {
 public:
  Embedding() = default;
  Embedding(const Scope& scope, std::size_t rows, std::size_t width, float standard_deviation = 1)
      : weight(initial_parameter(scope, Shape{rows, width},
                                 {Initial::normal(standard_deviation, scope.draw("weight"))})),
        path(scope) {}
  Var operator()(Tape& tape, const Var& ids) const {
    const auto within = tape.within(path.view());
    return embedding(tape, weight, ids);
  }
  void collect(Collector& collector) const {
    collector.add("weight", weight, ParameterRole::weight);
  }

  Var weight;  // [rows, width]
  LayerPath path{};
};

class LayerNorm {
 public:
  LayerNorm() = default;
  LayerNorm(const Scope& scope, std::size_t width, float norm_epsilon = 1e-5f)
      : weight(initial_parameter(scope, Shape{width}, {Initial::full(1)})),
        bias(initial_parameter(scope, Shape{width}, {Initial::full(0)})),
        epsilon(norm_epsilon),
        path(scope) {}
  Var operator()(Tape& tape, const Var& x) const {
    const auto within = tape.within(path.view());
    return layer_norm(tape, x, weight, bias, epsilon);
  }
  void collect(Collector& collector) const {
    collector.add("weight", weight, ParameterRole::scale);
    collector.add("bias", bias, ParameterRole::bias);
  }

  Var weight, bias;  // [width]
  float epsilon = 1e-5f;
  LayerPath path{};
};

class Dropout {
 public:
  Dropout() = default;
  Dropout(const Scope& scope, float drop_probability)
      : probability(drop_probability), stream(scope.stream("dropout")) {}
  Var operator()(Tape& tape, const Var& x) const { return dropout(tape, x, probability, stream); }
  // For operators that fuse dropout.
  DropoutSetting setting(const Tape& tape) const {
    return dropout_setting(tape, probability, stream);
  }
  void collect(Collector&) const {}

  float probability = 0;
  std::uint32_t stream = 0;
};

struct Conv2dOptions {
  ConvolutionSetting setting{};
  bool bias = true;
};

// Images [N, in, H, W] to [N, out, H', W'], kernel x kernel.
class Conv2d {
 public:
  Conv2d() = default;
  Conv2d(const Scope& scope, std::size_t in, std::size_t out, std::size_t kernel,
         const Conv2dOptions& options = {})
      : setting(options.setting), path(scope) {
    const Shape shape{out, in, kernel, kernel};
    const float bound = detail::root_of_ratio(1, fans(shape).in);  // lecun_uniform
    weight = initial_parameter(scope, shape, {Initial::uniform(bound, scope.draw("weight"))});
    if (options.bias)
      bias = initial_parameter(scope, Shape{out}, {Initial::uniform(bound, scope.draw("bias"))});
  }
  Var operator()(Tape& tape, const Var& x) const {
    const auto within = tape.within(path.view());
    return conv2d(tape, x, weight, bias, setting);
  }
  void collect(Collector& collector) const {
    collector.add("weight", weight, ParameterRole::weight);
    collector.add("bias", bias, ParameterRole::bias);
  }

  Var weight, bias;  // [out, in, kernel, kernel], [out]
  ConvolutionSetting setting;
  LayerPath path{};
};

}  // namespace soma::nn
