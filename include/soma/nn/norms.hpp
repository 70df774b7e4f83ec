#pragma once
// Norms beyond LayerNorm: RmsNorm, GroupNorm and InstanceNorm.

#include <soma/autograd/functions.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/scope.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::nn {

// x / sqrt(mean of x^2 + epsilon) * weight, over the last dimension. arXiv 1910.07467.
class RmsNorm {
 public:
  RmsNorm() = default;
  // Error operator.value: an epsilon that is not above 0.
  RmsNorm(const Scope& scope, std::size_t width, float norm_epsilon = 1e-5f);
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector& collector) const;
  void describe(Record& record) const;

  Var weight;  // [width]
  float epsilon = 1e-5f;
  LayerPath path{};
};

// Layer norm over groups of channels. Each of the N samples of x [N, C, ...] has `groups` groups of
// C / groups channels, and each group is normalised as a whole. Then each channel is multiplied by
// its weight, and its bias is added. arXiv 1803.08494.
class GroupNorm {
 public:
  GroupNorm() = default;
  // Error operator.value: the number of channels is no multiple of the number of groups, or an
  // epsilon that is not above 0.
  GroupNorm(const Scope& scope, std::size_t group_count, std::size_t channels,
            float norm_epsilon = 1e-5f);
  // Error tensor.shape.
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector& collector) const;
  void describe(Record& record) const;

  Var weight, bias;  // [channels]
  std::size_t groups = 1;
  float epsilon = 1e-5f;
  LayerPath path{};
};

struct InstanceNormOptions {
  float epsilon = 1e-5f;
  bool affine = false;  // a weight and a bias for each channel
};
void fields(FieldVisitor& visitor, InstanceNormOptions& options);

// Layer norm over each channel of each sample of x [N, C, ...]; it keeps no running statistics.
// arXiv 1607.08022.
class InstanceNorm {
 public:
  InstanceNorm() = default;
  // Error operator.value.
  InstanceNorm(const Scope& scope, std::size_t channel_count, const InstanceNormOptions& how = {});
  // Error tensor.shape.
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector& collector) const;
  void describe(Record& record) const;

  Var weight, bias;  // [channels], or undefined
  std::size_t channels = 0;
  float epsilon = 1e-5f;
  LayerPath path{};
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/norms.ipp>
#endif
