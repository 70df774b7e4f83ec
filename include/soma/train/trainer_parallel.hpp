#pragma once
// The members of TrainerBase that several ranks need.

#include <soma/train/evaluate_ranks.hpp>
#include <soma/train/trainer_base.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

namespace soma::train {

inline void TrainerBase::join_ranks() {
  if (ranks_.alone()) return;
  precision_.use_parts(ranks_.maximum());
  if (options_.shard_optimizer)
    optimizer_.keep_rows([&](const Parameter& parameter) { return ranks_.own_rows(parameter); });
}

// All that has to be the same on all ranks, besides what a checkpoint remembers.
inline void TrainerBase::begin_ranks(const data::BatchSource& batches,
                                     const data::BatchSource* held_out, std::uint64_t steps) {
  Record run = identity(batches);
  run.set("steps", steps);
  run.set("held_out", held_out == nullptr ? std::uint64_t{0} : held_out->hash());
  run.set("non_finite", static_cast<std::uint64_t>(options_.non_finite));
  run.set("evaluate_every", options_.evaluate_every);
  run.set("patience", options_.patience);
  run.set("keep_best", options_.keep_best);
  run.set("checkpoint_every", options_.checkpoint_every);
  run.set("resume", options_.resume);
  run.set("reduce_bucket_bytes", options_.reduce_bucket_bytes);
  run.set("shard_optimizer", options_.shard_optimizer);
  if (shares_moments())
    run.set("checkpoints", options_.checkpoints == nullptr ? "none" : "a store");
  ranks_.begin(run, task_.parameters());
  has_store_ = ranks_.from_first(options_.checkpoints != nullptr);
  if (!has_store_ || !shares_moments()) return;
  // Whether each of them can write where rank 0 does shows now, not after hours.
  save_parts({});
  if (ranks_.first()) options_.checkpoints->drop_parts();
}

// Of this rank's gradients, or where ranks share them of all.
inline double TrainerBase::gradient_norm() {
  if (ranks_.alone() || !options_.shard_optimizer)
    return optim::gradient_norm(context_, task_.parameters());
  return optim::gradient_norm(context_, task_.parameters(),
                              [&](std::span<double> sums) { ranks_.sum_parts(sums); });
}

inline bool TrainerBase::shares_moments() const {
  return options_.shard_optimizer && ranks_.count() > 1;
}

// Into the checkpoint; or each rank's own part beside it.
inline void TrainerBase::save_optimizer(Checkpoint& checkpoint) {
  if (!shares_moments()) {
    checkpoint.optimizer = optimizer_.state();
    return;
  }
  save_parts(optimizer_.state());
  checkpoint.optimizer_parts = static_cast<std::size_t>(ranks_.count());
}

// All parts are there when it returns, on any rank.
inline void TrainerBase::save_parts(const StateDict& own) {
  CheckpointStore& store = *options_.checkpoints;
  const std::string place =
      ranks_.from_first(ranks_.first() ? store.begin_parts(progress_.step) : std::string());
  std::exception_ptr problem;
  const auto save = [&] {
    store.save_part(place,
                    {place_of_part(ranks_.communicator()->rank(), ranks_.count()),
                     static_cast<std::size_t>(ranks_.count())},
                    own);
  };
#if SOMA_HAS_EXCEPTIONS
  try {
    save();
  } catch (...) {
    problem = std::current_exception();
  }
#else
  save();
#endif
  if (!ranks_.any(problem != nullptr)) return;
  // Rank 0 may be ended with the others before it can tidy up.
  if (ranks_.first()) store.drop_parts();
  ranks_.barrier();
#if SOMA_HAS_EXCEPTIONS
  if (problem != nullptr) std::rethrow_exception(problem);
#endif
  ranks_.barrier();  // ends with what a rank with a problem says
}

// A rank evaluates whole batches: their maxima are its own.
inline Evaluation TrainerBase::evaluate_all(data::BatchSource& held_out) {
  if (ranks_.alone()) return evaluate(context_, task_, held_out, &precision_);
  precision_.set_maximum({});
  Evaluation evaluation = evaluate(context_, task_, held_out, &precision_, *ranks_.communicator());
  precision_.set_maximum(ranks_.maximum());
  return evaluation;
}

// Makes what is reported that of all ranks.
inline void TrainerBase::add_losses(std::span<PartLoss> losses, Gathered& sums) {
  const FloatEnvironment environment;
  std::vector<float> totals;
  for (const PartLoss& loss : losses) totals.push_back(loss.sum);
  ranks_.sum(totals);
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (const double count = losses[i].count; count != 0)
      sums.loss += static_cast<double>(totals[i] / static_cast<float>(count)) * count;
  std::uint64_t cases[] = {sums.classified, sums.correct};
  ranks_.sum(std::span(cases));
  sums.classified = cases[0];
  sums.correct = cases[1];
}

inline Report TrainerBase::fit(data::BatchSource& batches, data::BatchSource* held_out,
                               const StopFlag* stop) {
#if SOMA_HAS_EXCEPTIONS
  if (ranks_.alone()) return train(batches, held_out, stop);
  try {
    return train(batches, held_out, stop);
  } catch (const std::exception& error) {
    ranks_.abort(error.what());
    throw;
  } catch (...) {
    ranks_.abort("something that is no std::exception was thrown");
    throw;
  }
#else
  return train(batches, held_out, stop);  // the end of this process tells the others
#endif
}

}  // namespace soma::train
