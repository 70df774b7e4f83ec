#pragma once
// The functions of loop.hpp.

#include <soma/train/loop.hpp>

#include <soma/ops/records.hpp>
#include <cmath>
#include <exception>
#include <soma/optim/gradients.hpp>
#include <soma/runtime/usage.hpp>
#include <soma/train/checkpoints.hpp>
#include <soma/train/checks.hpp>
#include <soma/train/evaluations.hpp>
#include <soma/train/stoppable_source.hpp>
#include <soma/train/trainer_base.hpp>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE TrainerBase::TrainerBase(Context& context, nn::Task& task,
                                     const TrainerOptions& options, MakeParts make_parts)
    : context_(context),
      task_(task),
      options_(options),
      schedule_(schedule_of(task, options)),
      precision_(context, options.precision, options.seed) {
  make_parts(context, task, options_, precision_, ranks_, own_gradients_);
  check_options(task, options, ranks_->first());
  ranks_->check(task, options.optimizer);
  gradients_ = options.gradients == nullptr ? own_gradients_.get() : options.gradients;
  make_optimizer();
  ranks_->join(precision_, *optimizer_);
}

// One process, or the ranks that share each batch.
SOMA_INLINE void TrainerBase::make_plain(Context& context, nn::Task& task,
                                         const TrainerOptions& options, PrecisionState& precision,
                                         Owned<Ranks>& ranks, Owned<StepGradients>& gradients) {
  if (options.pipeline.partitions != 1 || options.pipeline.microbatches != 1)
    fail(error_id::train_options, "Trainer", "pipeline",
         std::to_string(options.pipeline.partitions) + " partitions, " +
             std::to_string(options.pipeline.microbatches) + " micro-batches",
         "a PipelineTrainer (soma/pipeline.hpp), which has them");
  ranks = make_ranks(context, options);
  if (options.gradients == nullptr)
    gradients =
        Owned<StepGradients>::make<TapeGradients>(context, task, precision, *ranks, options.seed);
}

}  // namespace SOMA_NAMESPACE::train

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE void give_precision(Context& context, const Parameters& parameters,
                                const Precision& precision) {
  const DType weights = find_dtype(precision.weights.format);
  for (const Parameter& parameter : parameters) {
    const Tensor& value = parameter.var.value();
    if (value.rank() < 2 || value.dtype() == weights) continue;
    if (!value.defined()) {  // it gets that type when it is made
      parameter.var.drop_value(weights);
      continue;
    }
    parameter.var.set_value(
        run(context, *context.built_in().cast, CastSetting{.dtype = weights}, {value})[0]);
  }
}

SOMA_INLINE std::uint64_t count_steps(const data::BatchSource& batches,
                                      const TrainerOptions& options) {
  std::uint64_t total = 0;
  for (std::uint64_t epoch = 0; epoch < options.epochs; ++epoch) {
    const std::uint64_t count = batches.batches(epoch);
    if (count == 0) return options.max_steps;
    total += (count + options.accumulate - 1) / options.accumulate;
    if (options.max_steps != 0 && total >= options.max_steps) return options.max_steps;
  }
  return options.epochs == 0 ? options.max_steps : total;
}

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

SOMA_INLINE void TrainerBase::make_optimizer() {
  const Parameters& all = gradients_->model_parameters();
  detail::give_precision(context_, all, options_.precision);
  optimizer_ = options_.optimizer;
  if (optimizer_ != nullptr) return;
  const auto decay = static_cast<float>(options_.weight_decay.value_or(0.01));
  const optim::AdamWOptions options{
      .storage = {.state = find_dtype(options_.precision.moments.format),
                  .state_rounding = options_.precision.moments.rounding,
                  .weight_rounding = options_.precision.weights.rounding,
                  .seed = options_.seed}};
  if (options_.decay_all)
    own_optimizer_.emplace(
        context_, std::vector<optim::Group>{{.parameters = all, .weight_decay = decay}}, options);
  else
    own_optimizer_.emplace(context_, optim::decay_groups(all, decay), options);
  optimizer_ = &*own_optimizer_;
}

// Checks everything that can be wrong before the first step, and sets the run to its beginning or
// to the checkpoint that it resumes.
SOMA_INLINE void TrainerBase::begin(data::BatchSource& batches,
                                    const data::BatchSource* validation) {
  const std::uint64_t steps = detail::count_steps(batches, options_);
  if (steps == 0 && schedule_.depends_on_steps())
    fail(error_id::train_steps_unknown, "Trainer::fit", "batches", "a source of unknown length",
         "max_steps, or a schedule that does not depend on the length");
  if (validation == nullptr && schedule_.decay == optim::Decay::plateau)
    fail(error_id::train_options, "Trainer::fit", "validation", "no source for evaluations",
         "a source: a plateau schedule needs evaluations");
  schedule_.steps = steps;
  schedule_.check();
  progress_ = {};
  progress_.steps = steps;
  for (Callback* callback : callbacks_) {  // forget the requests of an earlier run
    callback->take_stop();
    callback->take_save();
  }
  struct Description final : Ranks::RunDescription {
    Description(const TrainerBase& own, const data::BatchSource& source,
                const data::BatchSource* evaluated)
        : trainer(own), batches(source), validation(evaluated) {}
    Record make() const override {
      return agreement_of(trainer.identity(batches), trainer.gradients_->model_parameters(),
                          validation, trainer.options_, trainer.progress_.steps,
                          trainer.ranks_->saves_parts());
    }
    const TrainerBase& trainer;
    const data::BatchSource& batches;
    const data::BatchSource* validation;
  };
  ranks_->begin(Description(*this, batches, validation), gradients_->model_parameters());
  gradients_->begin(batches);
  has_store_ = ranks_->from_first(options_.checkpoints != nullptr);
  if (has_store_ && ranks_->saves_parts()) ranks_->check_store(options_.checkpoints);
  best_.begin(options_.checkpoints, has_store_);
  batches.seek({});
  if (options_.resume) resume(batches);
  saved_at_ = progress_.step;
  // Some sources need a pass over the data for this: an urgent checkpoint cannot wait for it.
  if (has_store_) batches.hash();
}

// Clips the gradients, takes the step and returns its description.
SOMA_INLINE StepInfo TrainerBase::step(const StepSums& sums) {
  constexpr std::uint64_t most_skips = 25;
  const FloatEnvironment environment;
  const bool scaled = options_.precision.loss_scaling;
  // If no loss counts, for example because all labels are ignored, loss and gradients are zero;
  // decay and moments of the optimizer continue.
  const double losses = sums.losses == 0 ? 1 : sums.losses;
  const double share =
      (options_.accumulate == 1 ? 1.0 : 1.0 / losses) * (scaled ? double{scaler_.inverse()} : 1.0);
  StepInfo info;
  info.loss = sums.loss / losses;
  info.gradient_norm = gradients_->norm() * share;
  info.learning_rate = schedule_(progress_.step, progress_.plateau.reductions);
  const bool finite = std::isfinite(info.gradient_norm);
  // A gradient that overflowed under a scale shows that the scale was too large.
  const bool too_large = scaled && !scaler_.update(finite) && std::isfinite(info.loss) &&
                         scaler_.scale() > scaler_.options().smallest;
  if (std::isfinite(info.loss) && finite) {
    const float clipping =
        options_.clip == 0 ? 1.0f : optim::clipping_factor(info.gradient_norm, options_.clip);
    optimizer_->step(
        {.rate = info.learning_rate,
         .gradient_factor = share == 1 ? clipping : static_cast<float>(share * double{clipping})});
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

SOMA_INLINE Report TrainerBase::train(data::BatchSource& batches, data::BatchSource* validation,
                                      const StopFlag* stop) {
  const std::int64_t start = monotonic_nanoseconds();
  failure_ = nullptr;
  between_steps_ = false;
  // Before the first step there is nothing to lose. Rank 0 reports it.
  ranks_->give_up_after(stop, ranks_->first() ? 0 : 2);
  begin(batches, validation);
  const std::uint64_t steps = progress_.steps;
  const auto out_of_patience = [&] {
    return options_.patience != 0 && progress_.stale >= options_.patience;
  };
  Report report;
  report.first_step = progress_.step;
  RunInfo run{.first_step = progress_.step,
              .steps = steps,
              .epochs = options_.epochs,
              .threads = context_.executor().width,
              .ranks = ranks_->count()};
  for (const Parameter& parameter : gradients_->model_parameters())
    run.parameters += parameter.value().elements();
  for (Callback* callback : callbacks_) callback->on_start(run);
  patience_seconds_ = options_.stop_patience;
  be_patient(stop);
  between_steps_ = true;

  if (validation != nullptr && evaluation_is_due(batches)) {
    const data::Position place = batches.position();
    report.interrupted =
        !evaluate(*validation, report,
                  place.batch == 0 && place.epoch != 0 ? place.epoch - 1 : place.epoch, stop);
  }
  report.stopped_early = out_of_patience();  // one that is resumed may have ended
  const auto wants_more = [&] {
    return (steps == 0 || progress_.step < steps) && !report.stopped_early && !report.interrupted;
  };
  StoppableSource source(batches, stoppable() ? stop : nullptr, *ranks_,
                         StoppableSource::When::while_reading);
  std::uint64_t empty_epochs = 0;
  while (wants_more()) {
    const std::uint64_t epoch = batches.position().epoch;
    if (options_.epochs != 0 && epoch >= options_.epochs) break;
    const std::int64_t step_start = monotonic_nanoseconds();
    if (options_.same_graphs) ranks_->note_graphs();
    const StepSums sums = gradients_->run(
        source, {.step = progress_.step,
                 .first_batch = progress_.batches,
                 .batches = options_.accumulate,
                 .loss_scale = options_.precision.loss_scaling ? scaler_.scale() : 1});
    if ((report.interrupted = source.cut())) break;  // the step was not made
    const bool any = sums.batches != 0;
    if (any) {
      empty_epochs = 0;
      between_steps_ = false;
      StepInfo info = step(sums);
      if (options_.same_graphs) ranks_->compare_graphs();
      progress_.position = batches.position();
      between_steps_ = true;
      info.epoch = epoch;
      info.seconds = static_cast<double>(monotonic_nanoseconds() - step_start) * 1e-9;
      if (patience_seconds_ < 2 * info.seconds) {
        patience_seconds_ = 2 * info.seconds;
        be_patient(stop);
      }
      detail::add_step(report, info);
      tell([&](Callback& callback) { callback.on_step(info); });
    } else if (++empty_epochs > 1) {
      fail(error_id::train_options, "Trainer::fit", "batches", "a source without any",
           "at least one batch in an epoch");
    }
    progress_.position = batches.position();
    // The step itself may have reached the end, with fewer batches than it should accumulate.
    const bool epoch_ended = batches.position().epoch != epoch;
    const bool due = options_.evaluate_every == 0
                         ? epoch_ended && progress_.step != progress_.evaluated_at
                         : any && progress_.step % options_.evaluate_every == 0;
    bool cut = validation != nullptr && due && !evaluate(*validation, report, epoch, stop);
    report.stopped_early = out_of_patience();
    bool enough = false, wants_save = false;
    for (Callback* callback : callbacks_) {
      enough |= callback->take_stop();
      wants_save |= callback->take_save();
    }
    cut |= failure_ != nullptr || (any && stop != nullptr && stop->requested());
    if (ranks_->any(enough || cut || wants_save)) {
      if (ranks_->any(enough))
        report.stopped_early = true;
      else if (ranks_->any(cut))
        report.interrupted = wants_more();
      wants_save = has_store_ && ranks_->any(wants_save);
    }
    const bool save_is_due =
        options_.checkpoint_every != 0 && any && progress_.step % options_.checkpoint_every == 0;
    if ((save_is_due || wants_save) && !report.interrupted) {
      save(batches, stop);
      saved_at_ = progress_.step;
    }
  }
  clear_gradients(parameters());
  report.complete = !report.interrupted;
  optimizer_->settle();
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
  if (options_.keep_best && progress_.has_best && !report.interrupted)
    best_.load(context_, *ranks_, parameters());
  if (options_.keep_best && progress_.has_best) report.best_metric = options_.best_metric;
  // The weights were evaluated before this run resumed from a checkpoint.
  if (validation != nullptr && !report.interrupted && !report.evaluated) {
    if (std::optional<Evaluation> evaluation = measure(*validation, stop))
      report.take(std::move(*evaluation));
    else
      report.interrupted = true;
  }
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
  } catch (const std::exception& error) {
    save_alone(batches, error);
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
