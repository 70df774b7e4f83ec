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
  double loss = 0;                  // mean over the sequences
  std::uint64_t sequences = 0;
  double seconds = 0;
};

namespace detail {

// Class labels of a batch as integers, whatever type they have.
inline std::vector<std::int64_t> class_labels(const data::Batch& batch) {
  const std::span<const std::int64_t> labels = batch.labels.span<std::int64_t>();
  return {labels.begin(), labels.end()};
}

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
      scored.scores = contiguous(context_, forward.scores);
    return scored;
  }
  // Labels are not read where there are no scores.
  void count(std::size_t sequences, std::span<const std::int64_t> labels, float loss,
             std::span<const float> scores) {
    const double sum = static_cast<double>(loss) * static_cast<double>(sequences);
    total_ += sum;
    result_.sequences += sequences;
    if (scores.empty()) return;
    const std::size_t classes = task_.classes();
    for (std::size_t i = 0; i < labels.size(); ++i)
      result_.metrics.add(scores.subspan(i * classes, classes), labels[i]);
    result_.metrics.add_loss(sum);
  }
  Evaluation finish() {
    if (result_.sequences != 0) result_.loss = total_ / static_cast<double>(result_.sequences);
    result_.seconds = static_cast<double>(monotonic_nanoseconds() - start_) * 1e-9;
    return std::move(result_);
  }

 private:
  Context& context_;
  nn::Task& task_;
  Tape tape_;
  Evaluation result_{};
  double total_ = 0;
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
    const bool labelled = scored.scores.defined();
    evaluator.count(batch.inputs.sequences.count(),
                    labelled ? detail::class_labels(batch) : std::vector<std::int64_t>(),
                    scored.loss, scored.list());
  }
  return evaluator.finish();
}

}  // namespace soma::train
