#pragma once
// The functions of evaluate_ranks.hpp.

#include <soma/train/evaluate_ranks.hpp>

#include <soma/parallel/collectives.hpp>
#include <soma/train/evaluate.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE Evaluation evaluate(Context& context, nn::Task& task, data::BatchSource& source,
                                PrecisionState* precision, Communicator& communicator) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto own = static_cast<std::size_t>(communicator.rank());
  detail::Evaluator evaluator(context, task, precision);
  // The numbers that a rank sends for each batch: its loss, 1 if there are scores, and the scores
  // (else zeros).
  const auto numbers_of = [&](const detail::BatchCounts& batch) {
    return 2 + batch.sequences * evaluator.outputs();
  };
  std::vector<detail::BatchCounts> batches;
  std::vector<std::vector<float>> numbers(ranks);
  data::Batch first;
  source.seek({});
  for (data::Batch batch; source.next(batch);) {
    if (batches.empty()) first = batch;
    const std::size_t rank = batches.size() % ranks;
    batches.emplace_back(task, batch);
    std::vector<float>& list = numbers[rank];
    const std::size_t at = list.size();
    list.resize(at + numbers_of(batches.back()));
    if (rank != own) continue;
    const detail::Evaluator::Scored scored = evaluator.compute(batch);
    list[at] = scored.loss;
    list[at + 1] = scored.scores.defined() ? 1.0f : 0.0f;
    for (std::size_t i = 0; i < scored.list().size(); ++i) list[at + 2 + i] = scored.list()[i];
  }
  // The state that a batch leaves (converted weights) has to be the same on all ranks.
  if (!batches.empty() && numbers[own].empty()) evaluator.compute(first);

  for (std::size_t rank = 0; rank < ranks; ++rank)
    broadcast(communicator, std::as_writable_bytes(std::span(numbers[rank])),
              static_cast<int>(rank));
  std::vector<std::size_t> next(ranks);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const std::size_t rank = i % ranks, count = numbers_of(batches[i]);
    const std::span<const float> list = std::span(numbers[rank]).subspan(next[rank], count);
    next[rank] += count;
    evaluator.count(batches[i], list[0], list[1] == 0 ? std::span<const float>() : list.subspan(2));
  }
  return evaluator.finish();
}

}  // namespace SOMA_NAMESPACE::train
