#pragma once
// The members of TrainerBase that save a run and go on from what was saved.

#include <soma/state/operators.hpp>
#include <soma/train/identity.hpp>
#include <soma/train/trainer_base.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace soma::train {

inline Record TrainerBase::identity(const data::BatchSource& batches) const {
  return identity_of(context_, task_, batches, options_, schedule_, *optimizer_);
}

inline void TrainerBase::save(const data::BatchSource& batches) {
  optimizer_->settle();
  Checkpoint checkpoint;
  checkpoint.weights = nn::state_dict(parameters());
  ranks_->save_states(options_.checkpoints, progress_.step, *optimizer_, checkpoint);
  checkpoint.precision = precision_.state();
  checkpoint.identity = identity(batches);
  progress_.position = batches.position();
  progress_.loss_scale = scaler_.scale();
  progress_.loss_scale_good_steps = scaler_.good_steps();
  progress_.write(checkpoint.progress);
  set_operators(checkpoint.progress, context_);
  if (ranks_->first()) options_.checkpoints->save(progress_.step, checkpoint);
  ranks_->barrier();
  for (Callback* callback : callbacks_) callback->on_checkpoint(progress_.step);
}

inline void TrainerBase::resume(data::BatchSource& batches) {
  Checkpoint checkpoint;
  const bool found = ranks_->first() && options_.checkpoints->load_latest(context_, checkpoint);
  if (ranks_->from_first(found)) load(ranks_->from_first(std::move(checkpoint)), batches);
}

inline void TrainerBase::load(const Checkpoint& checkpoint, data::BatchSource& batches) {
  check_operators(checkpoint.progress, context_);
  check_identity(checkpoint.identity, identity(batches));
  check_parameters(checkpoint.weights, parameters());
  Progress loaded = Progress::read(checkpoint.progress);
  optimizer_->load_state(checkpoint.optimizer);
  precision_.load_state(checkpoint.precision);
  scaler_.restore(loaded.loss_scale, loaded.loss_scale_good_steps);
  nn::load(parameters(), checkpoint.weights, {.extra_names_are_errors = true});
  batches.seek(loaded.position);
  const std::uint64_t before = std::exchange(loaded.steps, progress_.steps);
  progress_ = loaded;
  if (before == progress_.steps || !schedule_.depends_on_steps()) return;
  // Rates of steps that were made cannot be made again.
  optim::Schedule old = schedule_;
  old.steps = before;
  const auto rate_of = [&](const optim::Schedule& schedule) {
    return schedule.steps <= schedule.warmup ? 0.0 : schedule(progress_.step);
  };
  context_.log(LogLevel::warning,
               "Trainer: resumed for " + std::to_string(progress_.steps) + " steps, planned were " +
                   std::to_string(before) +
                   ": the schedule ends elsewhere, so the learning rate of step " +
                   std::to_string(progress_.step + 1) + " is " + to_text(rate_of(schedule_)) +
                   " instead of " + to_text(rate_of(old)));
}

}  // namespace soma::train
