#pragma once
// The small modules: Linear, Embedding, LayerNorm, Dropout, Conv2d. A module holds its parameters
// as variables and is called with a tape; copies share parameters.

#include <soma/autograd/functions.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/product_site.hpp>
#include <soma/nn/scope.hpp>

#include <cstddef>
#include <optional>
#include <string_view>

namespace SOMA_NAMESPACE {

class Record;

namespace nn {

struct LinearOptions {
  bool bias = true;
  // Standard deviation of normally distributed initial weights, with zero biases; not set:
  // lecun_uniform for weights and biases.
  std::optional<float> standard_deviation{};
  bool edge = false;  // the first or the last layer of a model (nn/product_site.hpp)
};
void fields(FieldVisitor& visitor, LinearOptions& options);

// [..., in] to [..., out].
class Linear {
 public:
  Linear() = default;
  Linear(const Scope& scope, std::size_t in, std::size_t out, const LinearOptions& options = {});
  Var operator()(Tape& tape, const Var& x, const LinearSetting& setting = {},
                 const Var& residual = {}) const;
  void collect(Collector& collector) const;

  Var weight, bias;  // [out, in], [out]
  ProductSite site;
};

struct EmbeddingOptions {
  float standard_deviation = 1;
  // The row of an id that fills places up: zeros at first, without gradient, and no optimizer moves
  // it (Var::set_resting_row).
  std::optional<std::size_t> padding{};
};
void fields(FieldVisitor& visitor, EmbeddingOptions& options);

// Ids of any shape to [..., width].
class Embedding {
 public:
  Embedding() = default;
  Embedding(const Scope& scope, std::size_t rows, std::size_t width, float standard_deviation = 1);
  // Error operator.value: a padding that is no row.
  Embedding(const Scope& scope, std::size_t rows, std::size_t width,
            const EmbeddingOptions& options);
  Var operator()(Tape& tape, const Var& ids) const;
  void collect(Collector& collector) const;

  Var weight;  // [rows, width]
  LayerPath path{};
};

class LayerNorm {
 public:
  LayerNorm() = default;
  // Error operator.value: an epsilon that is not above 0.
  LayerNorm(const Scope& scope, std::size_t width, float norm_epsilon = 1e-5f);
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector& collector) const;

  Var weight, bias;  // [width]
  float epsilon = 1e-5f;
  LayerPath path{};
};

class Dropout {
 public:
  Dropout() = default;
  // Error random.probability: a probability that is not 0 to below 1.
  Dropout(const Scope& scope, float drop_probability);
  Var operator()(Tape& tape, const Var& x) const;
  // For operators that fuse dropout.
  DropoutSetting setting(const Tape& tape) const;
  void collect(Collector&) const {}

  float probability = 0;
  std::uint32_t stream = 0;
};

namespace detail {

// [out, in / groups, height, width]. Error operator.value: groups that divide neither.
Shape convolution_weight(std::string_view layer, std::size_t in, std::size_t out,
                         std::size_t height, std::size_t width, const ConvolutionSetting& setting);
// Dilation, groups and the padding behind, where they are not the default: a run from before these
// settings keeps its identity.
void describe_reach(Record& record, const ConvolutionSetting& setting);

}  // namespace detail

struct Conv2dOptions {
  ConvolutionSetting setting{};
  bool bias = true;
  bool edge = false;  // as in LinearOptions
};
void fields(FieldVisitor& visitor, Conv2dOptions& options);

// Images [N, in, H, W] to [N, out, H', W'], kernel x kernel. Error operator.value: groups that do
// not divide both numbers of channels.
class Conv2d {
 public:
  Conv2d() = default;
  Conv2d(const Scope& scope, std::size_t in, std::size_t out, std::size_t kernel,
         const Conv2dOptions& options = {});
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector& collector) const;
  // Settings that are not the default; strides and paddings are not described.
  void describe(Record& record) const;

  Var weight, bias;  // [out, in / groups, kernel, kernel], [out]
  ConvolutionSetting setting;
  ProductSite site{};
};

}  // namespace nn
}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/layers.ipp>
#endif
