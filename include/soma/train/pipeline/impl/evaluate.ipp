#pragma once
// Evaluates with all stages and replicas.

#include <soma/train/pipeline/gradients.hpp>

#include <soma/train/evaluate.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace SOMA_NAMESPACE::train {

// Replica r computes batches r, r + replicas, ...: the batches stream through its stages. The
// replicas exchange the results of their last stages and send them to the other stages, and every
// rank counts them in the order of the batches.
SOMA_INLINE Evaluation PipelineGradients::evaluate_batches(data::BatchSource& source) {
  const std::size_t replicas = groups_.replica_count(), own = groups_.replica();
  const TapeOptions options{.record = false,
                            .training = false,
                            .activations = precision_.activations(),
                            .precision = &precision_};
  detail::Evaluator evaluator(context_, task_, &precision_);
  const auto numbers_of = [&](const detail::BatchCounts& batch) {
    return 2 + batch.sequences * evaluator.outputs();
  };
  std::vector<detail::BatchCounts> batches;
  std::vector<std::vector<float>> numbers(replicas);
  std::size_t computed = 0;
  data::Batch first;
  source.seek({});
  for (data::Batch batch; source.next(batch);) {
    if (batches.empty()) first = batch;
    const std::size_t replica = batches.size() % replicas;
    batches.emplace_back(task_, batch);
    std::vector<float>& list = numbers[replica];
    const std::size_t at = list.size();
    list.resize(at + numbers_of(batches.back()));
    if (replica != own) continue;
    const nn::Task::Forward made = stage_.evaluate(batch, computed++, options);
    if (!groups_.last_stage()) continue;
    list[at] = made.loss.value().data<float>()[0];
    if (!made.scores.defined() || evaluator.outputs() == 0) continue;
    list[at + 1] = 1;
    const Tensor scores = detail::scores_of(context_, made, batch, evaluator.outputs());
    const std::span<const float> values = scores.span<float>();
    std::copy(values.begin(), values.end(), list.begin() + static_cast<std::ptrdiff_t>(at) + 2);
  }
  // The state that a batch leaves (converted weights) has to be the same on all replicas.
  if (!batches.empty() && computed == 0) stage_.evaluate(first, 0, options);
  stage_.finish_sends();

  for (std::size_t replica = 0; replica < replicas; ++replica) {
    const auto bytes = std::as_writable_bytes(std::span(numbers[replica]));
    if (groups_.last_stage()) broadcast(groups_.replicas(), bytes, static_cast<int>(replica));
    broadcast(groups_.pipeline(), bytes, static_cast<int>(groups_.partitions()) - 1);
  }
  std::vector<std::size_t> next(replicas);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const std::size_t replica = i % replicas, count = numbers_of(batches[i]);
    const std::span<const float> list = std::span(numbers[replica]).subspan(next[replica], count);
    next[replica] += count;
    evaluator.count(batches[i], list[0], list[1] == 0 ? std::span<const float>() : list.subspan(2));
  }
  return evaluator.finish();
}

}  // namespace SOMA_NAMESPACE::train
