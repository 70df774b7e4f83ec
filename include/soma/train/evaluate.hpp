#pragma once
// evaluate(): a pass over a source without training.

#include <soma/metrics/classification.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/nn/task.hpp>
#include <soma/runtime/clock.hpp>
#include <soma/train/evaluation.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace soma::train {

namespace detail {

// The metrics that the task counts beside the loss; empty if there are none.
inline Owned<metrics::Metrics> metrics_of(const nn::Task& task) {
  if (Owned<metrics::Metrics> own = task.metrics()) return own;
  if (task.classes() == 0) return {};
  return Owned<metrics::Metrics>::make<metrics::Classification>(task.classes());
}

// The scores of a batch, or of a part of one, side by side. Error train.label: not `outputs` scores
// for each sequence.
inline Tensor scores_of(Context& context, const nn::Task::Forward& forward,
                        const data::Batch& batch, std::size_t outputs) {
  const std::size_t sequences = batch.inputs.sequences.count();
  if (forward.scores.elements() != sequences * outputs)
    fail(error_id::train_label, "Task::forward", "scores", forward.scores.describe(),
         to_string(Shape{sequences, outputs}) + ", the outputs of the task's metrics");
  return contiguous(context, forward.scores);
}

// The numbers of a batch that are known before it is computed.
struct BatchCounts {
  BatchCounts(const nn::Task& task, const data::Batch& batch)
      : sequences(batch.inputs.sequences.count()),
        losses(task.loss_count(batch)),
        labels(task.labels_of(batch)) {}
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

    std::span<const float> list() const {
      return scores.defined() ? scores.span<float>() : std::span<const float>();
    }
  };

  Evaluator(Context& context, nn::Task& task, PrecisionState* precision)
      : context_(context),
        task_(task),
        tape_(context,
              {.record = false,
               .training = false,
               .activations = precision == nullptr ? DType::fp32 : precision->activations(),
               .precision = precision}),
        metrics_(metrics_of(task)) {}

  // The number of scores that are counted for a sequence.
  std::size_t outputs() const { return metrics_ ? metrics_->outputs() : 0; }

  Scored compute(const data::Batch& batch) {
    tape_.reset();
    const nn::Task::Forward forward = task_.forward(tape_, batch);
    Scored scored{forward.loss.value().data<float>()[0]};
    if (forward.scores.defined() && outputs() != 0)
      scored.scores = scores_of(context_, forward, batch, outputs());
    return scored;
  }
  void count(const BatchCounts& batch, float loss, std::span<const float> scores) {
    // The mean of no losses would be NaN.
    if (batch.losses != 0) total_ += static_cast<double>(loss) * batch.losses;
    losses_ += batch.losses;
    result_.sequences += batch.sequences;
    if (!scores.empty()) metrics_->add(scores, batch.labels);
  }
  Evaluation finish() {
    if (losses_ != 0) result_.loss = total_ / losses_;
    if (metrics_) {
      result_.values = metrics_->values();
      if (const metrics::Classification* classes = metrics_->classification())
        result_.metrics = *classes;
    }
    result_.seconds = static_cast<double>(monotonic_nanoseconds() - start_) * 1e-9;
    return std::move(result_);
  }

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
inline Evaluation evaluate(Context& context, nn::Task& task, data::BatchSource& source,
                           PrecisionState* precision = nullptr) {
  detail::Evaluator evaluator(context, task, precision);
  source.seek({});
  for (data::Batch batch; source.next(batch);) {
    const detail::Evaluator::Scored scored = evaluator.compute(batch);
    evaluator.count(detail::BatchCounts(task, batch), scored.loss, scored.list());
  }
  return evaluator.finish();
}

}  // namespace soma::train
