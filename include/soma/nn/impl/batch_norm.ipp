#pragma once
// The functions of batch_norm.hpp.

#include <soma/nn/batch_norm.hpp>

#include <soma/autograd/tape.hpp>
#include <soma/autograd/tape_guards.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/scope.hpp>
#include <soma/numeric/fused.hpp>
#include <soma/ops/fields.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/rows/settings.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::nn::detail {

// A batch's share would be lost in the roundings of another type.
inline void check_statistics(std::string_view argument, const Tensor& values) {
  if (values.dtype() != DType::fp32)
    fail(error_id::tensor_dtype, "BatchNorm", argument, values.describe(), "fp32 in training");
}

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE void fields(FieldVisitor& visitor, BatchNormOptions& options) {
  visitor.option("epsilon", options.epsilon, epsilon_range);
  visitor.option("momentum", options.momentum, NumberRange::within(0, 1));
}

SOMA_INLINE BatchNorm::BatchNorm(const Scope& scope, std::size_t channels,
                                 const BatchNormOptions& norm_options)
    : weight(initial_parameter(scope, Shape{channels}, {Initial::full(1)})),
      bias(initial_parameter(scope, Shape{channels}, {Initial::full(0)})),
      running_mean(initial_parameter(scope, Shape{channels}, {Initial::full(0)})),
      running_var(initial_parameter(scope, Shape{channels}, {Initial::full(1)})),
      options(norm_options),
      path(scope) {
  check_ranges("BatchNorm", options);
}

SOMA_INLINE Var BatchNorm::operator()(Tape& tape, const Var& x) const {
  const auto within = tape.within(path.view());
  const bool training = tape.options().training;
  const BatchNormSetting setting{options.epsilon, !training,
                                 training ? tape.options().batch_sums : nullptr};
  if (!training) {
    const Var inputs[] = {x, weight, bias, tape.constant(running_mean.value()),
                          tape.constant(running_var.value())};
    return tape.apply_all(*tape.operators().batch_norm, setting, inputs)[0];
  }
  if (tape.recording())
    soma::detail::in_layer(path.view(), [&] {
      detail::check_statistics("running_mean", running_mean.value());
      detail::check_statistics("running_var", running_var.value());
    });
  const Var inputs[] = {x, weight, bias};
  const VarOutputs y = tape.apply_all(*tape.operators().batch_norm, setting, inputs);
  if (tape.recording()) advance(y[1].value());
  return y[0];
}

SOMA_INLINE void BatchNorm::collect(Collector& collector) const {
  collector.add("weight", weight, ParameterRole::scale);
  collector.add("bias", bias, ParameterRole::bias);
  collector.add("running_mean", running_mean, ParameterRole::bias);
  collector.add("running_var", running_var, ParameterRole::bias);
}

SOMA_INLINE void BatchNorm::describe(Record& record) const {
  record.set("epsilon", options.epsilon);
  record.set("momentum", options.momentum);
}

SOMA_INLINE void BatchNorm::advance(const Tensor& statistics) const {
  const FloatEnvironment environment;
  const std::size_t channels = weight.shape()[0];
  const float* batch = statistics.data<float>();
  const float *mean = batch, *variance = batch + 2 * channels;
  float* means = running_mean.value().mutable_data<float>();
  float* variances = running_var.value().mutable_data<float>();
  const float share = options.momentum;
  for (std::size_t c = 0; c < channels; ++c) {
    if (!std::isfinite(mean[c]) || !std::isfinite(variance[c])) continue;
    means[c] = fused_multiply_add(share, mean[c], (1 - share) * means[c]);
    variances[c] = fused_multiply_add(share, variance[c], (1 - share) * variances[c]);
  }
}

}  // namespace SOMA_NAMESPACE::nn

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE void check_batch_norm_rank(std::string_view layer, const Shape& shape, bool fits,
                                       std::string_view wanted) {
  if (!fits) fail(error_id::tensor_rank, layer, "x", to_string(shape), wanted);
}

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Var BatchNorm1d::operator()(Tape& tape, const Var& x) const {
  const std::size_t rank = x.shape().rank();
  detail::check_batch_norm_rank("BatchNorm1d", x.shape(), rank == 2 || rank == 3,
                                "[N, channels] or [N, channels, length]");
  return BatchNorm::operator()(tape, x);
}

SOMA_INLINE Var BatchNorm2d::operator()(Tape& tape, const Var& x) const {
  detail::check_batch_norm_rank("BatchNorm2d", x.shape(), x.shape().rank() == 4,
                                "[N, channels, height, width]");
  return BatchNorm::operator()(tape, x);
}

}  // namespace SOMA_NAMESPACE::nn
