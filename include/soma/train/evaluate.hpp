#pragma once
// evaluate(): a pass over a source without training.

#include <soma/nn/task.hpp>
#include <soma/runtime/clock.hpp>
#include <soma/train/metrics.hpp>

#include <cstddef>
#include <span>
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

}  // namespace detail

// One epoch of the source, from its beginning, in the formats of `precision` where there is one.
// Errors as the task's and the source's.
inline Evaluation evaluate(Context& context, nn::Task& task, data::BatchSource& source,
                           PrecisionState* precision = nullptr) {
  const std::int64_t start = monotonic_nanoseconds();
  Evaluation result;
  result.metrics = ClassificationMetrics(task.classes());
  Tape tape(context, {.record = false,
                      .training = false,
                      .activations = precision == nullptr ? DType::fp32 : precision->activations(),
                      .precision = precision});
  source.seek({});
  double total = 0;
  for (data::Batch batch; source.next(batch); tape.reset()) {
    const nn::Task::Forward forward = task.forward(tape, batch);
    const std::size_t sequences = batch.inputs.sequences.count();
    const double sum =
        static_cast<double>(forward.loss.value().data<float>()[0]) * static_cast<double>(sequences);
    total += sum;
    result.sequences += sequences;
    if (!forward.scores.defined() || task.classes() == 0) continue;
    const Tensor scores = contiguous(context, forward.scores);
    const std::span<const float> all = scores.span<float>();
    const std::vector<std::int64_t> labels = detail::class_labels(batch);
    for (std::size_t i = 0; i < labels.size(); ++i)
      result.metrics.add(all.subspan(i * task.classes(), task.classes()), labels[i]);
    result.metrics.add_loss(sum);
  }
  if (result.sequences != 0) result.loss = total / static_cast<double>(result.sequences);
  result.seconds = static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
  return result;
}

}  // namespace soma::train
