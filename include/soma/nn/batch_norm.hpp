#pragma once
// BatchNorm1d and BatchNorm2d (arXiv 1502.03167).

#include <soma/autograd/tape.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/scope.hpp>

#include <cmath>
#include <cstddef>
#include <string>

namespace SOMA_NAMESPACE::nn {

struct BatchNormOptions {
  float epsilon = 1e-5f;
  float momentum = 0.1f;  // share of the new batch in running statistics, 0 to 1
};
void fields(FieldVisitor& visitor, BatchNormOptions& options);

// Normalises the channels of x [N, channels, ...]. Training uses the mean and variance of the whole
// batch, over all ranks that share it; otherwise the running statistics are used. The running
// statistics advance once for each batch that a training tape records (a recomputed part is
// recorded once), in the order of the batches: running = (1 - momentum) running + momentum now. A
// channel whose mean or variance is not finite gives NaN, and its running statistics stay as they
// are. They are parameters without gradients, so that checkpoints contain them and no optimizer
// changes them.
//
// Several ranks give the same bits as one process. A pipeline with several micro-batches refuses
// this layer.
class BatchNorm {
 public:
  BatchNorm() = default;
  // Error operator.value: an epsilon that is not above 0, a momentum that is not 0 to 1.
  BatchNorm(const Scope& scope, std::size_t channels, const BatchNormOptions& norm_options = {});
  // Errors tensor.shape, operator.value (a channel with a single element in training), tensor.dtype
  // (running statistics that are not fp32 in training).
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector& collector) const;
  void describe(Record& record) const;
  static constexpr bool mixes_sequences() { return true; }

  Var weight, bias;               // [channels]
  Var running_mean, running_var;  // [channels], the variance unbiased
  BatchNormOptions options;
  LayerPath path{};

 private:
  // `statistics`: mean, 1 / standard deviation, unbiased variance.
  void advance(const Tensor& statistics) const;
};

namespace detail {

// Error tensor.rank.
void check_batch_norm_rank(std::string_view layer, const Shape& shape, bool fits,
                           std::string_view wanted);

}  // namespace detail

// x [N, channels] or [N, channels, length].
class BatchNorm1d : public BatchNorm {
 public:
  using BatchNorm::BatchNorm;
  Var operator()(Tape& tape, const Var& x) const;
};
// x [N, channels, height, width].
class BatchNorm2d : public BatchNorm {
 public:
  using BatchNorm::BatchNorm;
  Var operator()(Tape& tape, const Var& x) const;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/batch_norm.ipp>
#endif
