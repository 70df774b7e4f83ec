#pragma once
// Norms beyond LayerNorm: RmsNorm and GroupNorm.

#include <soma/autograd/functions.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/scope.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace soma::nn {

// x / sqrt(mean of x^2 + epsilon) * weight, over the last dimension. arXiv 1910.07467.
class RmsNorm {
 public:
  RmsNorm() = default;
  RmsNorm(const Scope& scope, std::size_t width, float norm_epsilon = 1e-5f)
      : weight(initial_parameter(scope, Shape{width}, {Initial::full(1)})),
        epsilon(norm_epsilon),
        path(scope) {}
  Var operator()(Tape& tape, const Var& x) const {
    const auto within = tape.within(path.view());
    return rms_norm(tape, x, weight, epsilon);
  }
  void collect(Collector& collector) const {
    collector.add("weight", weight, ParameterRole::scale);
  }
  void describe(Record& record) const { record.set("epsilon", epsilon); }

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
  // Error operator.value: the number of channels is no multiple of the number of groups.
  GroupNorm(const Scope& scope, std::size_t group_count, std::size_t channels,
            float norm_epsilon = 1e-5f)
      : weight(initial_parameter(scope, Shape{channels}, {Initial::full(1)})),
        bias(initial_parameter(scope, Shape{channels}, {Initial::full(0)})),
        groups(group_count),
        epsilon(norm_epsilon),
        path(scope) {
    if (groups == 0 || channels % groups != 0)
      fail(error_id::operator_value, "GroupNorm", "groups", std::to_string(groups),
           "1 or more, in " + std::to_string(channels) + " channels a whole number of times");
  }
  // Error tensor.shape.
  Var operator()(Tape& tape, const Var& x) const {
    const auto within = tape.within(path.view());
    const Shape& shape = x.shape();
    const std::size_t channels = weight.shape()[0];
    if (shape.rank() < 2 || shape[1] != channels)
      fail(error_id::tensor_shape, "GroupNorm", "x", to_string(shape),
           "[N, " + std::to_string(channels) + ", ...]");
    std::size_t width = channels / groups;
    std::vector<std::size_t> sizes(shape.rank() - 1, 1);  // [C, 1, ...]
    sizes[0] = channels;
    for (std::size_t i = 2; i < shape.rank(); ++i) width *= shape[i];
    const Var ones = tape.constant(Tensor::full(tape.context(), Shape{width}, 1.0f));
    const Var rows = reshape(tape, x, Shape{shape[0] * groups, width});
    const Var inputs[] = {rows, ones};
    const Var normal =
        tape.apply_all(*tape.operators().norm, NormSetting{epsilon, false}, inputs)[0];
    // Again by rows of x, so that sums follow the shards of a batch.
    const Var y = tape.with_sequences(reshape(tape, normal, shape), x.sequences());
    const Shape by_channel{std::span<const std::size_t>(sizes)};
    return add(tape, mul(tape, y, reshape(tape, weight, by_channel)),
               reshape(tape, bias, by_channel));
  }
  void collect(Collector& collector) const {
    collector.add("weight", weight, ParameterRole::scale);
    collector.add("bias", bias, ParameterRole::bias);
  }
  void describe(Record& record) const {
    record.set("groups", std::uint64_t{groups});
    record.set("epsilon", epsilon);
  }

  Var weight, bias;  // [channels]
  std::size_t groups = 1;
  float epsilon = 1e-5f;
  LayerPath path{};
};

}  // namespace soma::nn
