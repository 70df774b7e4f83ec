#pragma once
// BatchNorm1d and BatchNorm2d (arXiv 1502.03167).

#include <soma/autograd/tape.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/scope.hpp>
#include <soma/ops/basic.hpp>

#include <cmath>
#include <cstddef>
#include <string>

namespace soma::nn {

struct BatchNormOptions {
  float epsilon = 1e-5f;
  float momentum = 0.1f;  // share of the new batch in running statistics
};

// Normalises the channels of x [N, channels, ...]. Training uses the mean and variance of the whole
// batch, over all ranks that share it; otherwise the running statistics are used. The running
// statistics advance once for each batch that a training tape records (a recomputed part is
// recorded once), in the order of the batches. They are parameters without gradients, so that
// checkpoints contain them and no optimizer changes them.
//
// Several ranks give the same bits as one process. A pipeline with several micro-batches refuses
// this layer.
class BatchNorm {
 public:
  BatchNorm() = default;
  BatchNorm(const Scope& scope, std::size_t channels, const BatchNormOptions& norm_options = {})
      : weight(initial_parameter(scope, Shape{channels}, {Initial::full(1)})),
        bias(initial_parameter(scope, Shape{channels}, {Initial::full(0)})),
        running_mean(initial_parameter(scope, Shape{channels}, {Initial::full(0)})),
        running_var(initial_parameter(scope, Shape{channels}, {Initial::full(1)})),
        options(norm_options),
        path(scope) {}
  // Errors tensor.shape, operator.value (a channel with a single element in training).
  Var operator()(Tape& tape, const Var& x) const {
    const auto within = tape.within(path.view());
    const bool training = tape.options().training;
    const BatchNormSetting setting{options.epsilon, !training,
                                   training ? tape.options().batch_sums : nullptr};
    if (!training) {
      const Var inputs[] = {x, weight, bias, tape.constant(running_mean.value()),
                            tape.constant(running_var.value())};
      return tape.apply_all(*tape.operators().basic->batch_norm, setting, inputs)[0];
    }
    const Var inputs[] = {x, weight, bias};
    const VarOutputs y = tape.apply_all(*tape.operators().basic->batch_norm, setting, inputs);
    if (tape.recording()) advance(y[1].value());
    return y[0];
  }
  void collect(Collector& collector) const {
    collector.add("weight", weight, ParameterRole::scale);
    collector.add("bias", bias, ParameterRole::bias);
    collector.add("running_mean", running_mean, ParameterRole::bias);
    collector.add("running_var", running_var, ParameterRole::bias);
  }
  void describe(Record& record) const {
    record.set("epsilon", options.epsilon);
    record.set("momentum", options.momentum);
  }
  static constexpr bool mixes_sequences() { return true; }

  Var weight, bias;               // [channels]
  Var running_mean, running_var;  // [channels], the variance unbiased
  BatchNormOptions options;
  LayerPath path{};

 private:
  // `statistics`: mean, 1 / standard deviation, unbiased variance.
  void advance(const Tensor& statistics) const {
    const FloatEnvironment environment;
    const std::size_t channels = weight.shape()[0];
    const float* batch = statistics.data<float>();
    const auto mix = [&](const Var& running, const float* now) {
      float* values = running.value().mutable_data<float>();
      for (std::size_t c = 0; c < channels; ++c)
        values[c] = std::fma(options.momentum, now[c] - values[c], values[c]);
    };
    mix(running_mean, batch);
    mix(running_var, batch + 2 * channels);
  }
};

namespace detail {

// Error tensor.rank.
inline void check_batch_norm_rank(std::string_view layer, const Shape& shape, bool fits,
                                  std::string_view wanted) {
  if (!fits) fail(error_id::tensor_rank, layer, "x", to_string(shape), wanted);
}

}  // namespace detail

// x [N, channels] or [N, channels, length].
class BatchNorm1d : public BatchNorm {
 public:
  using BatchNorm::BatchNorm;
  Var operator()(Tape& tape, const Var& x) const {
    const std::size_t rank = x.shape().rank();
    detail::check_batch_norm_rank("BatchNorm1d", x.shape(), rank == 2 || rank == 3,
                                  "[N, channels] or [N, channels, length]");
    return BatchNorm::operator()(tape, x);
  }
};
// x [N, channels, height, width].
class BatchNorm2d : public BatchNorm {
 public:
  using BatchNorm::BatchNorm;
  Var operator()(Tape& tape, const Var& x) const {
    detail::check_batch_norm_rank("BatchNorm2d", x.shape(), x.shape().rank() == 4,
                                  "[N, channels, height, width]");
    return BatchNorm::operator()(tape, x);
  }
};

}  // namespace soma::nn
