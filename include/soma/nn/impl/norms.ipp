#pragma once
// The functions of norms.hpp.

#include <soma/nn/norms.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/scope.hpp>
#include <soma/ops/fields.hpp>
#include <soma/ops/records.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::nn::detail {

// Groups of channels of x [N, C, ...] with mean 0 and variance 1. Error tensor.shape.
SOMA_INLINE Var normal_groups(Tape& tape, std::string_view operation, const Var& x,
                              std::size_t channels, std::size_t groups, float epsilon) {
  const Shape& shape = x.shape();
  if (shape.rank() < 2 || shape[1] != channels)
    fail(error_id::tensor_shape, operation, "x", to_string(shape),
         "[N, " + std::to_string(channels) + ", ...]");
  std::size_t width = channels / groups;
  for (std::size_t i = 2; i < shape.rank(); ++i) width *= shape[i];
  const Var ones = tape.constant(Tensor::full(tape.context(), Shape{width}, 1.0f));
  const Var rows = reshape(tape, x, Shape{shape[0] * groups, width});
  const Var inputs[] = {rows, ones};
  const Var normal = tape.apply_all(*tape.operators().norm, NormSetting{epsilon, false}, inputs)[0];
  return tape.with_sequences(reshape(tape, normal, shape), x.sequences());
}

// y [N, C, ...] weight + bias, channel by channel.
SOMA_INLINE Var scale_channels(Tape& tape, const Var& y, const Var& weight, const Var& bias) {
  std::vector<std::size_t> sizes(y.shape().rank() - 1, 1);  // [C, 1, ...]
  sizes[0] = weight.shape()[0];
  const Shape by_channel{std::span<const std::size_t>(sizes)};
  return add(tape, mul(tape, y, reshape(tape, weight, by_channel)),
             reshape(tape, bias, by_channel));
}

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE RmsNorm::RmsNorm(const Scope& scope, std::size_t width, float norm_epsilon)
    : weight(initial_parameter(scope, Shape{width}, {Initial::full(1)})),
      epsilon(norm_epsilon),
      path(scope) {
  check_range("RmsNorm", "epsilon", static_cast<double>(epsilon), epsilon_range);
}

SOMA_INLINE Var RmsNorm::operator()(Tape& tape, const Var& x) const {
  const auto within = tape.within(path.view());
  return rms_norm(tape, x, weight, epsilon);
}

SOMA_INLINE void RmsNorm::collect(Collector& collector) const {
  collector.add("weight", weight, ParameterRole::scale);
}

SOMA_INLINE void RmsNorm::describe(Record& record) const { record.set("epsilon", epsilon); }

SOMA_INLINE GroupNorm::GroupNorm(const Scope& scope, std::size_t group_count, std::size_t channels,
                                 float norm_epsilon)
    : weight(initial_parameter(scope, Shape{channels}, {Initial::full(1)})),
      bias(initial_parameter(scope, Shape{channels}, {Initial::full(0)})),
      groups(group_count),
      epsilon(norm_epsilon),
      path(scope) {
  check_range("GroupNorm", "epsilon", static_cast<double>(epsilon), epsilon_range);
  if (groups == 0 || channels % groups != 0)
    fail(error_id::operator_value, "GroupNorm", "groups", std::to_string(groups),
         "1 or more, in " + std::to_string(channels) + " channels a whole number of times");
}

SOMA_INLINE Var GroupNorm::operator()(Tape& tape, const Var& x) const {
  const auto within = tape.within(path.view());
  const Var y = detail::normal_groups(tape, "GroupNorm", x, weight.shape()[0], groups, epsilon);
  return detail::scale_channels(tape, y, weight, bias);
}

SOMA_INLINE void GroupNorm::collect(Collector& collector) const {
  collector.add("weight", weight, ParameterRole::scale);
  collector.add("bias", bias, ParameterRole::bias);
}

SOMA_INLINE void GroupNorm::describe(Record& record) const {
  record.set("groups", std::uint64_t{groups});
  record.set("epsilon", epsilon);
}

SOMA_INLINE void fields(FieldVisitor& visitor, InstanceNormOptions& options) {
  visitor.option("epsilon", options.epsilon, epsilon_range);
}

SOMA_INLINE InstanceNorm::InstanceNorm(const Scope& scope, std::size_t channel_count,
                                       const InstanceNormOptions& how)
    : channels(channel_count), epsilon(how.epsilon), path(scope) {
  check_ranges("InstanceNorm", how);
  if (!how.affine) return;
  weight = initial_parameter(scope, Shape{channels}, {Initial::full(1)});
  bias = initial_parameter(scope, Shape{channels}, {Initial::full(0)});
}

SOMA_INLINE Var InstanceNorm::operator()(Tape& tape, const Var& x) const {
  const auto within = tape.within(path.view());
  const Var y = detail::normal_groups(tape, "InstanceNorm", x, channels,
                                      (std::max)(channels, std::size_t{1}), epsilon);
  return weight.defined() ? detail::scale_channels(tape, y, weight, bias) : y;
}

SOMA_INLINE void InstanceNorm::collect(Collector& collector) const {
  if (!weight.defined()) return;
  collector.add("weight", weight, ParameterRole::scale);
  collector.add("bias", bias, ParameterRole::bias);
}

SOMA_INLINE void InstanceNorm::describe(Record& record) const { record.set("epsilon", epsilon); }

}  // namespace SOMA_NAMESPACE::nn
