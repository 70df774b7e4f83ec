#pragma once
// The loop of a run, and one step of it.

#include <soma/train/trainer_base.hpp>

#include <soma/ops/records.hpp>
#include <soma/optim/gradients.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/system/process.hpp>
#include <soma/train/stoppable_source.hpp>

#include <cmath>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::train::detail {

// True if the source stands after the last batch of an epoch, and not yet in the next epoch.
SOMA_INLINE bool at_epoch_end(const data::BatchSource& batches) {
  const data::Position end = batches.position();
  return end.batch != 0 && end.batch == batches.batches(end.epoch);
}

SOMA_INLINE void add_step(Report& report, const StepInfo& step) {
  report.tokens += step.tokens;
  report.sequences += step.sequences;
  report.train_seconds += step.seconds;
  report.wait_seconds += step.wait_seconds;
  report.useful_flops += step.useful_flops;
  report.reduction_seconds += step.reduction_seconds;
  report.reduction_wait_seconds += step.reduction_wait_seconds;
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

// Clips the gradients, takes the step and returns its description.
SOMA_INLINE StepInfo TrainerBase::step(const StepSums& sums) {
  constexpr std::uint64_t most_skips = 25;
  const FloatEnvironment environment;
  const bool scaled = scales_loss();
  // If no loss counts, for example because all labels are ignored, loss and gradients are zero;
  // decay and moments of the optimizer continue.
  const double losses = sums.losses == 0 ? 1 : sums.losses;
  const double share =
      (options_.accumulate == 1 ? 1.0 : 1.0 / losses) * (scaled ? double{scaler_.inverse()} : 1.0);
  StepInfo info;
  info.loss = sums.loss / losses;
  info.gradient_norm = gradients_->norm() * share;
  info.learning_rate = next_rate();
  const bool finite = std::isfinite(info.gradient_norm);
  // A gradient that overflowed under a scale shows that the scale was too large.
  const bool too_large = scaled && !scaler_.update(finite) && std::isfinite(info.loss) &&
                         scaler_.scale() > scaler_.options().smallest;
  if (std::isfinite(info.loss) && finite) {
    const float clipping =
        options_.clip == 0 ? 1.0f : optim::clipping_factor(info.gradient_norm, options_.clip);
    if (!options_.step_early)
      optimizer_->step(
          {.rate = info.learning_rate,
           .gradient_factor = share == 1 ? clipping : static_cast<float>(share * double{clipping}),
           .may_be_empty = gradients_->others_step()});
    gradients_->stepped();
    progress_.skipped_in_a_row = 0;
  } else {
    info.skipped = true;
    const bool stops = !too_large && options_.non_finite == NonFinite::stop;
    if (stops || ++progress_.skipped_in_a_row >= most_skips)
      fail(error_id::train_not_finite, "Trainer::fit", "step " + std::to_string(progress_.step + 1),
           "loss " + to_text(info.loss) + ", gradient norm " + to_text(info.gradient_norm),
           "finite numbers (a smaller learning rate, or NonFinite::skip)");
    ++progress_.skipped;
  }
  precision_.end_step();
  ++progress_.step;
  if (average_.is_due(progress_.step)) {
    optimizer_->settle();
    average_.update(trained_);
  }
  progress_.batches += sums.batches;
  progress_.last_loss = info.loss;
  info.step = progress_.step;
  info.tokens = sums.tokens;
  info.sequences = sums.sequences;
  info.longest = sums.longest;
  info.classified = sums.classified;
  info.correct = sums.correct;
  info.wait_seconds = sums.wait_seconds;
  info.useful_flops = sums.flops;
  info.reduction_seconds = sums.reduction.total;
  info.reduction_wait_seconds = sums.reduction.waited;
  return info;
}

// The report of the run's end, except metrics and times.
SOMA_INLINE void TrainerBase::finish(const data::BatchSource& batches, Report& report) const {
  report.steps = progress_.step;
  report.epochs = batches.position().epoch + (detail::at_epoch_end(batches) ? 1 : 0);
  report.loss = progress_.last_loss;
  report.skipped_steps = progress_.skipped;
  report.price_per_hour = options_.price_per_hour;
  report.peak_resident_bytes = peak_resident_bytes();
}

SOMA_INLINE void TrainerBase::tell_start() {
  RunInfo run{.first_step = progress_.step,
              .steps = progress_.steps,
              .epochs = options_.epochs,
              .threads = context_.executor().width,
              .ranks = ranks_->count(),
              .best_metric = options_.best_metric};
  for (const Parameter& parameter : gradients_->model_parameters())
    run.parameters += parameter.value().elements();
  for (Callback* callback : callbacks_) callback->on_start(run);
}

SOMA_INLINE bool TrainerBase::out_of_patience() const {
  return options_.patience != 0 && progress_.stale >= options_.patience;
}

SOMA_INLINE bool TrainerBase::steps_remain() const {
  return progress_.steps == 0 || progress_.step < progress_.steps;
}

// The learning rate of the next step.
SOMA_INLINE double TrainerBase::next_rate() const {
  return schedule_(progress_.step, progress_.plateau.reductions);
}

SOMA_INLINE bool TrainerBase::scales_loss() const {
  return options_.precision.loss_scaling || options_.loss_scaling;
}

// After the first step of a run all products are known. A stage of a pipeline knows its own only.
SOMA_INLINE void TrainerBase::say_precision() {
  if (!std::exchange(precision_is_new_, false)) return;
  precision_.note_products(false);
  if (!ranks_->first() || parameters().size() != gradients_->model_parameters().size()) return;
  const PrecisionEffect effect = effect_of(precision_);
  if (!effect.line.empty()) context_.log(LogLevel::info, "Trainer: " + effect.line);
  if (!effect.warning.empty()) context_.log(LogLevel::warning, "Trainer: " + effect.warning);
}

// The step with these gradients, and its report to the callbacks. `start`: when reading began.
SOMA_INLINE void TrainerBase::take_step(const StepSums& sums, const data::BatchSource& batches,
                                        std::uint64_t epoch, std::int64_t start, Report& report,
                                        const StopFlag* stop) {
  between_steps_ = false;
  StepInfo info = step(sums);
  say_precision();
  if (options_.same_graphs) ranks_->compare_graphs();
  progress_.position = batches.position();
  between_steps_ = true;
  info.epoch = epoch;
  info.seconds = static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
  if (patience_seconds_ < 2 * info.seconds) {
    patience_seconds_ = 2 * info.seconds;
    be_patient(stop);
  }
  detail::add_step(report, info);
  tell([&](Callback& callback) { callback.on_step(info); });
}

// True if an evaluation follows the step. `stepped`: false if only the rest of an epoch without a
// batch was read.
SOMA_INLINE bool TrainerBase::evaluates_after(const data::BatchSource& batches, std::uint64_t epoch,
                                              bool stepped) const {
  if (options_.evaluate_every != 0) return stepped && progress_.step % options_.evaluate_every == 0;
  // The step itself may have reached the end, with fewer batches than it should accumulate.
  return batches.position().epoch != epoch && progress_.step != progress_.evaluated_at;
}

// Decides whether to save and whether to stop, after a step and its evaluation, the same on all
// ranks. `cut`: the evaluation was cut short.
SOMA_INLINE auto TrainerBase::after_step(bool stepped, bool cut, const StopFlag* stop)
    -> AfterStep {
  AfterStep next;
  if (out_of_patience()) next.stop = Stop::early;
  bool enough = false, wants_save = false;
  for (Callback* callback : callbacks_) {
    enough |= callback->take_stop();
    wants_save |= callback->take_save();
  }
  cut |= failure_ != nullptr || (stepped && stop != nullptr && stop->requested());
  if (ranks_->any(enough || cut || wants_save)) {
    if (ranks_->any(enough))
      next.stop = Stop::early;
    else if (ranks_->any(cut) && next.stop == Stop::no && steps_remain())
      next.stop = Stop::interrupted;
    wants_save = has_store_ && ranks_->any(wants_save);
  }

  const bool save_is_due =
      options_.checkpoint_every != 0 && stepped && progress_.step % options_.checkpoint_every == 0;
  next.save = (save_is_due || wants_save) && next.stop != Stop::interrupted;
  return next;
}

// The last evaluation and the last checkpoint.
SOMA_INLINE void TrainerBase::end_run(const data::BatchSource& batches,
                                      data::BatchSource* validation, Report& report,
                                      const StopFlag* stop) {
  // At the end of an epoch a longer run evaluates too, and a checkpoint stores the evaluation.
  // Elsewhere a longer run would not evaluate, so the checkpoint comes first.
  const auto save_end = [&] {
    if (has_store_ && saved_at_ != progress_.step) save(batches, stop);
    saved_at_ = progress_.step;
  };
  const bool evaluates =
      validation != nullptr && !report.interrupted && progress_.step != progress_.evaluated_at;
  if (!evaluates || options_.evaluate_every != 0 || !detail::at_epoch_end(batches)) save_end();
  if (evaluates)
    report.interrupted = !evaluate(*validation, report, batches.position().epoch, stop);
  save_end();
#if SOMA_HAS_EXCEPTIONS
  if (ranks_->any(failure_ != nullptr)) {
    if (failure_) std::rethrow_exception(failure_);
    ranks_->barrier();  // ends with what the rank with the failure says
  }
#endif
}

// The best weights, or the average, and an evaluation of them that the run has not made yet.
SOMA_INLINE void TrainerBase::choose_weights(data::BatchSource* validation, Report& report,
                                             const StopFlag* stop) {
  const bool best = options_.keep_best && progress_.has_best;
  if (best && !report.interrupted)
    best_.load(context_, *ranks_, trained_);
  else if (!report.interrupted)
    average_.give(trained_);
  if (best) report.best_metric = options_.best_metric;
  // The weights were evaluated before this run resumed from a checkpoint.
  if (validation == nullptr || report.interrupted || report.evaluated) return;
  if (std::optional<Evaluation> evaluation = measure(*validation, stop))
    report.take(std::move(*evaluation));
  else
    report.interrupted = true;
}

SOMA_INLINE Report TrainerBase::train(data::BatchSource& batches, data::BatchSource* validation,
                                      const StopFlag* stop) {
  const std::int64_t start = monotonic_nanoseconds();
  failure_ = nullptr;
  between_steps_ = false;
  // Before the first step there is nothing to lose. Rank 0 reports it.
  ranks_->give_up_after(stop, ranks_->first() ? 0 : 2);
  begin(batches, validation);
  Report report;
  report.first_step = progress_.step;
  tell_start();
  patience_seconds_ = options_.stop_patience;
  be_patient(stop);
  between_steps_ = true;

  if (validation != nullptr && evaluation_is_due(batches)) {
    const data::Position at = batches.position();
    const std::uint64_t epoch = at.batch == 0 && at.epoch != 0 ? at.epoch - 1 : at.epoch;
    report.interrupted = !evaluate(*validation, report, epoch, stop);
  }
  report.stopped_early = out_of_patience();  // one that is resumed may have ended

  StoppableSource source(batches, stoppable() ? stop : nullptr, *ranks_,
                         StoppableSource::When::while_reading);
  std::uint64_t empty_epochs = 0;
  while (steps_remain() && !report.stopped_early && !report.interrupted) {
    const std::uint64_t epoch = batches.position().epoch;
    if (options_.epochs != 0 && epoch >= options_.epochs) break;

    const std::int64_t step_start = monotonic_nanoseconds();
    if (options_.same_graphs) ranks_->note_graphs();
    const StepSums sums =
        gradients_->run(source, {.step = progress_.step,
                                 .first_batch = progress_.batches,
                                 .batches = options_.accumulate,
                                 .loss_scale = scales_loss() ? scaler_.scale() : 1,
                                 .early = options_.step_early ? optimizer_ : nullptr,
                                 .rate = next_rate()});
    if (source.cut()) {  // the step was not made
      report.interrupted = true;
      break;
    }

    const bool stepped = sums.batches != 0;
    empty_epochs = stepped ? 0 : empty_epochs + 1;
    if (empty_epochs > 1)
      fail(error_id::train_options, "Trainer::fit", "batches", "a source without any",
           "at least one batch in an epoch");
    if (stepped) take_step(sums, batches, epoch, step_start, report, stop);
    progress_.position = batches.position();

    const bool due = validation != nullptr && evaluates_after(batches, epoch, stepped);
    const bool cut = due && !evaluate(*validation, report, epoch, stop);
    const AfterStep next = after_step(stepped, cut, stop);
    report.stopped_early = next.stop == Stop::early;
    report.interrupted = next.stop == Stop::interrupted;
    if (next.save) {
      save(batches, stop);
      saved_at_ = progress_.step;
    }
  }
  clear_gradients(parameters());
  report.complete = !report.interrupted;
  optimizer_->settle();
  end_run(batches, validation, report, stop);
  choose_weights(validation, report, stop);
  ranks_->give_up_after(nullptr, 0);

  finish(batches, report);
  gradients_->describe(report);
  report.total_seconds = static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
  for (Callback* callback : callbacks_) callback->on_end(report);
  return report;
}

SOMA_INLINE Report TrainerBase::fit(data::BatchSource& batches, data::BatchSource* validation,
                                    const StopFlag* stop) {
#if SOMA_HAS_EXCEPTIONS
  try {
    return train(batches, validation, stop);
  } catch (const Error& error) {
    save_alone(batches, error);
    ranks_->give_up_after(nullptr, 0);
    ranks_->abort(error.what());
    throw;
  } catch (const std::exception& error) {
    ranks_->give_up_after(nullptr, 0);
    ranks_->abort(error.what());
    throw;
  } catch (...) {
    ranks_->abort("an exception that is not a std::exception was thrown");
    throw;
  }
#else
  return train(batches, validation, stop);  // the end of this process tells the others
#endif
}

}  // namespace SOMA_NAMESPACE::train
