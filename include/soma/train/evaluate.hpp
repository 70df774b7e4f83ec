#pragma once
// evaluate(): a pass over a source without training.

#include <soma/metrics/classification.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/nn/task.hpp>
#include <soma/system/clock.hpp>
#include <soma/train/evaluation.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::train {

namespace detail {

// The metrics that the task counts beside the loss; empty if there are none.
Owned<metrics::Metrics> metrics_of(const nn::Task& task);

// The scores of a batch, or of a part of one, side by side. Error train.label: not `outputs` scores
// for each sequence.
Tensor scores_of(Context& context, const nn::Task::Forward& forward, const data::Batch& batch,
                 std::size_t outputs);

// The numbers of a batch that are known before it is computed.
struct BatchCounts {
  BatchCounts(const nn::Task& task, const data::Batch& batch);
  std::size_t sequences;
  double losses;
  Tensor labels;
};

// An evaluation in progress: batches are computed, and counted in their order.
class Evaluator {
 public:
  struct Scored {
    float loss = 0;
    Tensor scores{};  // contiguous; not defined where there are none

    std::span<const float> list() const;
  };

  Evaluator(Context& context, nn::Task& task, PrecisionState* precision);

  // The number of scores that are counted for a sequence.
  std::size_t outputs() const;

  Scored compute(const data::Batch& batch);
  void count(const BatchCounts& batch, float loss, std::span<const float> scores);
  Evaluation finish();

 private:
  Context& context_;
  nn::Task& task_;
  Tape tape_;
  Owned<metrics::Metrics> metrics_;
  Evaluation result_{};
  double total_ = 0, losses_ = 0;
  std::int64_t start_ = monotonic_nanoseconds();
};

}  // namespace detail

// One epoch of the source, from its beginning, in the formats of `precision` if it is given. Errors
// as of the task and the source.
Evaluation evaluate(Context& context, nn::Task& task, data::BatchSource& source,
                    PrecisionState* precision = nullptr);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/evaluate.ipp>
#endif
