#pragma once
// The functions of tape_gradients.hpp.

#include <soma/train/tape_gradients.hpp>

#include <soma/autograd/tape.hpp>
#include <soma/system/clock.hpp>
#include <soma/train/ranks.hpp>
#include <soma/train/step_gradients.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE TapeGradients::TapeGradients(Context& context, nn::Task& task,
                                         PrecisionState& precision, Ranks& ranks,
                                         std::uint64_t seed, bool early)
    : context_(context),
      task_(task),
      precision_(precision),
      ranks_(ranks),
      early_(early ? std::optional<EarlySteps>(std::in_place, context, task.parameters())
                   : std::nullopt),
      tape_(context, {.seed = seed,
                      .activations = precision.activations(),
                      .precision = &precision,
                      .receiver = early ? &*early_ : ranks.receiver(),
                      .batch_sums = ranks.batch_sums()}) {}

SOMA_INLINE const Parameters& TapeGradients::parameters() const { return task_.parameters(); }

SOMA_INLINE StepSums TapeGradients::run(data::BatchSource& batches, const StepRequest& request) {
  clear_gradients(task_.parameters());
  ranks_.begin_step(request.step, precision_.mapping());
  precision_.gather_gradients(request.batches > 1);
  StepSums sums;
  std::vector<BatchLoss> losses;
  const ReductionTimes before = ranks_.reduction_times();
  while (sums.batches < request.batches) {
    const std::int64_t start = monotonic_nanoseconds();
    data::Batch batch;
    const bool more = batches.next(batch);
    sums.wait_seconds += static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
    if (!more) break;
    losses.push_back(differentiate(batch, request, sums));
    ++sums.batches;
  }
  precision_.round_gradients(task_.parameters());
  const ReductionTimes after = ranks_.reduction_times();
  sums.reduction = {after.total - before.total, after.waited - before.waited};
  if (sums.batches == 0) return sums;
  sums.loss = ranks_.total_of(losses);
  for (const BatchLoss& loss : losses) sums.losses += loss.count;
  std::uint64_t cases[] = {sums.classified, sums.correct};
  ranks_.sum(cases);
  sums.classified = cases[0];
  sums.correct = cases[1];
  return sums;
}

SOMA_INLINE double TapeGradients::norm() {
  return early_ ? early_->norm() : ranks_.gradient_norm(context_, task_.parameters());
}

SOMA_INLINE void TapeGradients::stepped() { ranks_.gather_rows(task_.parameters()); }

SOMA_INLINE Evaluation TapeGradients::evaluate(data::BatchSource& source) {
  return ranks_.evaluate(context_, task_, source, precision_);
}

SOMA_INLINE BatchLoss TapeGradients::differentiate(const data::Batch& batch,
                                                   const StepRequest& request, StepSums& sums) {
  // Each batch draws its own dropout.
  tape_.reset(static_cast<std::uint32_t>(request.first_batch + sums.batches));
  const data::Batch part = ranks_.part_of(batch);
  const nn::Task::Forward forward = task_.forward(tape_, part);
  // A step's loss is the mean over all its batches, weighted by the task's count of losses.
  const double count = task_.loss_count(batch);
  const BatchLoss loss{forward.loss.value().data<float>()[0], count};
  const Sequences& sequences = batch.inputs.sequences;
  sums.sequences += sequences.count();
  sums.tokens += sequences.used_rows();
  for (std::size_t i = 0; i < sequences.count(); ++i)
    sums.longest = (std::max)(sums.longest, std::uint64_t{sequences.used(i)});
  sums.flops += task_.useful_flops(batch);
  if (task_.classes() != 0 && forward.scores.defined()) {
    metrics::Classification hits(task_.classes());
    const Tensor scores = detail::scores_of(context_, forward, part, task_.classes());
    hits.add(scores.span<float>(), part.labels);
    sums.classified += hits.cases();
    sums.correct += hits.correct();
  }
  const float whole = request.loss_scale * static_cast<float>(request.batches == 1 ? 1 : count);
  if (early_) {
    early_->begin(*request.early, request.rate);
    if (!std::isfinite(loss.value)) return loss;  // nothing is stepped
  }
  tape_.backward(forward.loss, ranks_.weight_of(whole, count));
  if (early_) early_->finish();
  ranks_.finish_gradients();  // or those of embeddings would wait, and all that follows them
  return loss;
}

}  // namespace SOMA_NAMESPACE::train
