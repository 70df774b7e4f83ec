#pragma once
// The functions of evaluate.hpp.

#include <soma/train/evaluate.hpp>

#include <soma/metrics/classification.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/nn/task.hpp>
#include <soma/system/clock.hpp>
#include <soma/train/evaluation.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE Owned<metrics::Metrics> metrics_of(const nn::Task& task) {
  if (Owned<metrics::Metrics> own = task.metrics()) return own;
  if (task.classes() == 0) return {};
  return Owned<metrics::Metrics>::make<metrics::Classification>(task.classes());
}

SOMA_INLINE Tensor scores_of(Context& context, const nn::Task::Forward& forward,
                             const data::Batch& batch, std::size_t outputs) {
  const std::size_t sequences = batch.inputs.sequences.count();
  if (forward.scores.elements() != sequences * outputs)
    fail(error_id::train_label, "Task::forward", "scores", forward.scores.describe(),
         to_string(Shape{sequences, outputs}) + ", the outputs of the task's metrics");
  return contiguous(context, forward.scores);
}

SOMA_INLINE BatchCounts::BatchCounts(const nn::Task& task, const data::Batch& batch)
    : sequences(batch.inputs.sequences.count()),
      losses(task.loss_count(batch)),
      labels(task.labels_of(batch)) {}

SOMA_INLINE std::span<const float> Evaluator::Scored::list() const {
  return scores.defined() ? scores.span<float>() : std::span<const float>();
}

SOMA_INLINE Evaluator::Evaluator(Context& context, nn::Task& task, PrecisionState* precision)
    : context_(context),
      task_(task),
      tape_(context, {.record = false,
                      .training = false,
                      .activations = precision == nullptr ? DType::fp32 : precision->activations(),
                      .precision = precision}),
      metrics_(metrics_of(task)) {}

SOMA_INLINE std::size_t Evaluator::outputs() const { return metrics_ ? metrics_->outputs() : 0; }

SOMA_INLINE auto Evaluator::compute(const data::Batch& batch) -> Scored {
  tape_.reset();
  const nn::Task::Forward forward = task_.forward(tape_, batch);
  Scored scored{forward.loss.value().data<float>()[0]};
  if (forward.scores.defined() && outputs() != 0)
    scored.scores = scores_of(context_, forward, batch, outputs());
  return scored;
}

SOMA_INLINE void Evaluator::count(const BatchCounts& batch, float loss,
                                  std::span<const float> scores) {
  // The mean of no losses would be NaN.
  if (batch.losses != 0) total_ += static_cast<double>(loss) * batch.losses;
  losses_ += batch.losses;
  result_.sequences += batch.sequences;
  if (!scores.empty()) metrics_->add(scores, batch.labels);
}

SOMA_INLINE Evaluation Evaluator::finish() {
  if (losses_ != 0) result_.loss = total_ / losses_;
  if (metrics_) {
    result_.values = metrics_->values();
    if (const metrics::Classification* classes = metrics_->classification())
      result_.metrics = *classes;
  }
  result_.seconds = static_cast<double>(monotonic_nanoseconds() - start_) * 1e-9;
  return std::move(result_);
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE Evaluation evaluate(Context& context, nn::Task& task, data::BatchSource& source,
                                PrecisionState* precision) {
  detail::Evaluator evaluator(context, task, precision);
  source.seek({});
  for (data::Batch batch; source.next(batch);) {
    const detail::Evaluator::Scored scored = evaluator.compute(batch);
    evaluator.count(detail::BatchCounts(task, batch), scored.loss, scored.list());
  }
  return evaluator.finish();
}

}  // namespace SOMA_NAMESPACE::train
