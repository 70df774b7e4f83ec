#pragma once
// Saves a run and resumes a saved one.

#include <soma/train/trainer_base.hpp>

#include <soma/nn/state.hpp>
#include <soma/state/operators.hpp>
#include <soma/train/identity.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::train::detail {

inline constexpr std::string_view validation_key = "validation.content";

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE Record TrainerBase::identity(const data::BatchSource& batches) const {
  Record record = identity_of(context_, task_, batches, options_, schedule_, *optimizer_);
  precision_.describe(record);
  if (frozen_values_) record.set("frozen.values", *frozen_values_);
  return record;
}

// True if validation rows decide which weights the run ends with.
SOMA_INLINE bool TrainerBase::validation_decides() const {
  return options_.keep_best || options_.patience != 0 || schedule_.decay == optim::Decay::plateau;
}

// This rank's part of the checkpoint.
SOMA_INLINE Checkpoint TrainerBase::checkpoint_of(const data::BatchSource& batches) {
  optimizer_->settle();
  Checkpoint checkpoint;
  checkpoint.weights = nn::state_dict(trained_);
  checkpoint.optimizer = optimizer_->state();
  average_.add_to(checkpoint.optimizer, ranks_->writes_shared_states());
  checkpoint.precision =
      precision_.state(parameters().size() != gradients_->model_parameters().size());
  checkpoint.identity = identity(batches);
  checkpoint.identity.set(detail::validation_key, validation_);
  checkpoint.task = task_.state();
  progress_.loss_scale = scaler_.scale();
  progress_.loss_scale_good_steps = scaler_.good_steps();
  progress_.write(checkpoint.progress);
  set_operators(checkpoint.progress, context_);
  return checkpoint;
}

// Sets how long ranks wait for each other during steps. Rank 0 reports an error: it first saves the
// last step, then ends the others, which give it time. If each rank has a part of the states, rank
// 0 cannot save alone.
SOMA_INLINE void TrainerBase::be_patient(const StopFlag* stop) {
  constexpr double time_to_save = 60, time_to_speak = 2;
  const double others = has_store_ && !ranks_->saves_parts() ? time_to_save : time_to_speak;
  ranks_->give_up_after(stop, patience_seconds_ + (ranks_->first() ? 0 : others));
}

SOMA_INLINE void TrainerBase::save(const data::BatchSource& batches, const StopFlag* stop) {
  ranks_->give_up_after(nullptr, 0);  // a save is finished, however long it takes
  Checkpoint checkpoint = checkpoint_of(batches);
  ranks_->save_parts(options_.checkpoints, progress_.step, checkpoint);
  if (ranks_->first()) options_.checkpoints->save(progress_.step, checkpoint);
  ranks_->barrier();
  be_patient(stop);
  tell([&](Callback& callback) { callback.on_checkpoint(progress_.step); });
}

#if SOMA_HAS_EXCEPTIONS
// Saves the last whole step after a stop during which other ranks did not answer: every rank has
// the whole state, unless ranks share the optimizer's states or have a stage each. The error that
// ended the run stays the one that is reported.
SOMA_INLINE void TrainerBase::save_alone(const data::BatchSource& batches,
                                         const Error& reason) noexcept {
  if (reason.id() != error_id::stopped || !between_steps_ || !has_store_ || !ranks_->first() ||
      ranks_->saves_parts() || saved_at_ == progress_.step)
    return;
  try {
    options_.checkpoints->save(progress_.step, checkpoint_of(batches));
  } catch (const std::exception& error) {
    context_.log(LogLevel::error, error.what());
  }
}
#endif

SOMA_INLINE void TrainerBase::resume(data::BatchSource& batches) {
  Checkpoint checkpoint;
  if (ranks_->load(context_, options_.checkpoints, Ranks::Which::latest, checkpoint))
    load(std::move(checkpoint), batches);
}

SOMA_INLINE void TrainerBase::load(Checkpoint checkpoint, data::BatchSource& batches) {
  check_operators(checkpoint.progress, context_);
  optimizer_->keep_mapping(checkpoint.identity);
  precision_.keep_mapping(checkpoint.identity);
  if (options_.keep_warmup) {
    schedule_.warmup = checkpoint.identity.count("schedule.warmup");
    schedule_.check();
  }
  Progress loaded = Progress::read(checkpoint.progress);
  Record own = identity(batches);
  // Evaluations of other rows cannot be compared: they are an error where they decide weights, and
  // are forgotten elsewhere.
  const RecordValue* evaluated = checkpoint.identity.find(detail::validation_key);
  const bool other_rows = evaluated != nullptr && evaluated->text != validation_;
  if (evaluated != nullptr)
    own.set(detail::validation_key,
            loaded.evaluated_at != 0 && validation_decides() ? validation_ : evaluated->text);
  check_identity(checkpoint.identity, own);
  if (other_rows) loaded.forget_best();
  check_parameters(checkpoint.weights, trained_);
  scaler_.restore(loaded.loss_scale, loaded.loss_scale_good_steps);
  average_.take_from(checkpoint.optimizer, trained_);
  optimizer_->load_state(checkpoint.optimizer);
  precision_.load_state(checkpoint.precision);
  nn::load(trained_, checkpoint.weights, {.extra_names_are_errors = true});
  task_.load_state(checkpoint.task);
  batches.seek(loaded.position);
  const std::uint64_t before = std::exchange(loaded.steps, progress_.steps);
  progress_ = loaded;
  if (before == progress_.steps || !schedule_.depends_on_steps()) return;
  // Steps that were made cannot be repeated with other learning rates.
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

}  // namespace SOMA_NAMESPACE::train
