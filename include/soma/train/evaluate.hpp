#pragma once
// evaluate(): a pass over a source without training.

#include <soma/nn/precision_state.hpp>
#include <soma/nn/task.hpp>
#include <soma/runtime/clock.hpp>
#include <soma/train/metrics.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace soma::train {

struct Evaluation {
  ClassificationMetrics metrics{};  // of tasks that have classes
  double loss = 0;                  // mean, as the task counts (Task::loss_count)
  std::uint64_t sequences = 0;
  double seconds = 0;
};

namespace detail {

// The scores of a batch, or of a part of one, side by side. Error train.label where they are not
// one for each class of each sequence.
inline Tensor scores_of(Context& context, const nn::Task& task, const nn::Task::Forward& forward,
                        const data::Batch& batch) {
  const std::size_t sequences = batch.inputs.sequences.count(), classes = task.classes();
  if (forward.scores.elements() != sequences * classes)
    fail(error_id::train_label, "Task::forward", "scores", forward.scores.describe(),
         to_string(Shape{sequences, classes}) + ", one for each class of the task");
  return contiguous(context, forward.scores);
}

// Cases with scores side by side, but for those whose labels are ignored.
inline void add_cases(ClassificationMetrics& metrics, std::span<const float> scores,
                      std::span<const std::int64_t> labels) {
  const std::size_t classes = metrics.classes();
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (!nn::is_ignored(labels[i])) metrics.add(scores.subspan(i * classes, classes), labels[i]);
}

// What a batch counts by, besides what is computed of it.
struct BatchCounts {
  BatchCounts(const nn::Task& task, const data::Batch& batch)
      : sequences(batch.inputs.sequences.count()), losses(task.loss_count(batch)) {
    if (task.classes() != 0) labels = nn::class_labels(batch);
  }
  std::size_t sequences;
  double losses;
  std::vector<std::int64_t> labels{};
};

// An evaluation in the making: batches are computed, and counted in their order.
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
               .precision = precision}) {
    result_.metrics = ClassificationMetrics(task.classes());
  }

  Scored compute(const data::Batch& batch) {
    tape_.reset();
    const nn::Task::Forward forward = task_.forward(tape_, batch);
    Scored scored{forward.loss.value().data<float>()[0]};
    if (forward.scores.defined() && task_.classes() != 0)
      scored.scores = scores_of(context_, task_, forward, batch);
    return scored;
  }
  void count(const BatchCounts& batch, float loss, std::span<const float> scores) {
    // The mean of nothing is not a number.
    const double sum = batch.losses == 0 ? 0 : static_cast<double>(loss) * batch.losses;
    total_ += sum;
    losses_ += batch.losses;
    result_.sequences += batch.sequences;
    if (scores.empty()) return;
    add_cases(result_.metrics, scores, batch.labels);
    result_.metrics.add_loss(sum);
  }
  Evaluation finish() {
    if (losses_ != 0) result_.loss = total_ / losses_;
    result_.seconds = static_cast<double>(monotonic_nanoseconds() - start_) * 1e-9;
    return std::move(result_);
  }

 private:
  Context& context_;
  nn::Task& task_;
  Tape tape_;
  Evaluation result_{};
  double total_ = 0, losses_ = 0;
  std::int64_t start_ = monotonic_nanoseconds();
};

}  // namespace detail

// One epoch of the source, from its beginning, in the formats of `precision` where there is one.
// Errors as the task's and the source's.
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
