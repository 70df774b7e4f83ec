#pragma once
// The members of TrainerBase that make a run: what is put together, the loop, one step of it, an
// evaluation.

#include <soma/optim/gradients.hpp>
#include <soma/runtime/usage.hpp>
#include <soma/train/checkpoints.hpp>
#include <soma/train/checks.hpp>
#include <soma/train/trainer_base.hpp>

#include <cmath>
#include <exception>
#include <string>
#include <utility>

namespace soma::train {

inline TrainerBase::TrainerBase(Context& context, nn::Task& task, const TrainerOptions& options)
    : context_(context),
      task_(task),
      options_(options),
      schedule_(schedule_of(task, options)),
      precision_(context, options.precision, options.seed),
      ranks_(make_ranks(context, options)) {
  check_options(task, options, ranks_->first());
  ranks_->check(task, options.optimizer);
  make_optimizer();
  ranks_->join(precision_, *optimizer_);
  if (options.gradients == nullptr)
    own_gradients_.emplace(context, task, precision_, *ranks_, options.seed);
  gradients_ = options.gradients == nullptr ? &*own_gradients_ : options.gradients;
}

namespace detail {

// Matrices become what the precision stores them as.
inline void give_precision(Context& context, const Parameters& parameters,
                           const Precision& precision) {
  const DType weights = find_dtype(precision.weights.format);
  for (const Parameter& parameter : parameters) {
    const Tensor& value = parameter.var.value();
    if (value.rank() < 2 || value.dtype() == weights) continue;
    parameter.var.set_value(
        run(context, *context.built_in().cast, CastSetting{.dtype = weights}, {value})[0]);
  }
}

// 0: not known.
inline std::uint64_t count_steps(const data::BatchSource& batches, const TrainerOptions& options) {
  std::uint64_t total = 0;
  for (std::uint64_t epoch = 0; epoch < options.epochs; ++epoch) {
    const std::uint64_t count = batches.batches(epoch);
    if (count == 0) return options.max_steps;
    total += (count + options.accumulate - 1) / options.accumulate;
    if (options.max_steps != 0 && total >= options.max_steps) return options.max_steps;
  }
  return options.epochs == 0 ? options.max_steps : total;
}

// Whether the source stands behind the last batch of an epoch, not in the next one yet.
inline bool at_epoch_end(const data::BatchSource& batches) {
  const data::Position end = batches.position();
  return end.batch != 0 && end.batch == batches.batches(end.epoch);
}

inline void add_step(Report& report, const StepInfo& step) {
  report.tokens += step.tokens;
  report.sequences += step.sequences;
  report.train_seconds += step.seconds;
  report.wait_seconds += step.wait_seconds;
  report.useful_flops += step.useful_flops;
  report.reduction_seconds += step.reduction_seconds;
  report.reduction_wait_seconds += step.reduction_wait_seconds;
}

// The value that best_metric names.
inline Comparison comparison_of(const Evaluation& evaluation, const std::string& name) {
  if (name == "loss") return {evaluation.loss, false};
  const metrics::Value* value = metrics::find(evaluation.values, name);
  return {value->value, value->higher_is_better};
}

}  // namespace detail

inline void TrainerBase::make_optimizer() {
  const Parameters& all =
      options_.gradients == nullptr ? task_.parameters() : options_.gradients->parameters();
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

// Checks what can be wrong before the first step, and puts the run where it begins or goes on.
inline void TrainerBase::begin(data::BatchSource& batches, const data::BatchSource* held_out) {
  const std::uint64_t steps = detail::count_steps(batches, options_);
  if (steps == 0 && schedule_.depends_on_steps())
    fail(error_id::train_steps_unknown, "Trainer::fit", "batches", "a source of unknown length",
         "max_steps, or a schedule that does not depend on the length");
  if (held_out == nullptr && schedule_.decay == optim::Decay::plateau)
    fail(error_id::train_options, "Trainer::fit", "held_out", "nothing to evaluate on",
         "a source: a plateau schedule goes by evaluations");
  schedule_.steps = steps;
  schedule_.check();
  progress_ = {};
  progress_.steps = steps;
  for (Callback* callback : callbacks_) callback->take_stop();  // of a run before
  struct Description final : Ranks::RunDescription {
    Description(const TrainerBase& own, const data::BatchSource& source,
                const data::BatchSource* evaluated)
        : trainer(own), batches(source), held_out(evaluated) {}
    Record make() const override {
      return agreement_of(trainer.identity(batches), trainer.parameters(), held_out,
                          trainer.options_, trainer.progress_.steps,
                          trainer.ranks_->shares_states());
    }
    const TrainerBase& trainer;
    const data::BatchSource& batches;
    const data::BatchSource* held_out;
  };
  ranks_->begin(Description(*this, batches, held_out), parameters());
  has_store_ = ranks_->from_first(options_.checkpoints != nullptr);
  if (has_store_ && ranks_->shares_states()) ranks_->check_store(options_.checkpoints);
  best_.begin(options_.checkpoints, has_store_);
  batches.seek({});
  if (options_.resume) resume(batches);
}

// Clips the gradients, takes the step and says what it did.
inline StepInfo TrainerBase::step(const StepSums& sums) {
  constexpr std::uint64_t most_skips = 25;
  const FloatEnvironment environment;
  const bool scaled = options_.precision.loss_scaling;
  // Where none counts, as where all labels are ignored, loss and gradients are zero; decay and
  // moments of the optimizer go on.
  const double losses = sums.losses == 0 ? 1 : sums.losses;
  const double share =
      (options_.accumulate == 1 ? 1.0 : 1.0 / losses) * (scaled ? double{scaler_.inverse()} : 1.0);
  StepInfo info;
  info.loss = sums.loss / losses;
  info.gradient_norm = gradients_->norm() * share;
  info.learning_rate = schedule_(progress_.step, progress_.plateau.reductions);
  const bool finite = std::isfinite(info.gradient_norm);
  // A gradient that overflowed under a scale says that the scale was too large.
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

inline void TrainerBase::evaluate(data::BatchSource& held_out, Report& report,
                                  std::uint64_t epoch) {
  optimizer_->settle();
  Evaluation evaluation = gradients_->evaluate(held_out);
  const double score = detail::comparison_of(evaluation, options_.best_metric).score();
  const bool better = !std::isnan(score) && (!progress_.has_best || score > progress_.best);
  const bool equal = progress_.has_best && score == progress_.best;
  if (better)
    progress_.stale = 0;
  else if (!equal)
    ++progress_.stale;
  progress_.evaluated_at = progress_.step;
  if (schedule_.decay == optim::Decay::plateau) progress_.plateau.add(score, schedule_.patience);
  if (better) {
    progress_.best = score;
    progress_.has_best = true;
    if (options_.keep_best) best_.keep(context_, *ranks_, parameters(), progress_);
  }
  const EvaluationInfo info{.step = progress_.step,
                            .epoch = epoch,
                            .metrics = task_.classes() != 0 ? &evaluation.metrics : nullptr,
                            .values = &evaluation.values,
                            .loss = evaluation.loss,
                            .seconds = evaluation.seconds,
                            .best = better};
  for (Callback* callback : callbacks_) callback->on_evaluation(info);
  if (better || !options_.keep_best) report.take(std::move(evaluation));
}

// What a report says of the run's end, but for metrics and times.
inline void TrainerBase::finish(const data::BatchSource& batches, Report& report) const {
  report.steps = progress_.step;
  report.epochs = batches.position().epoch + (detail::at_epoch_end(batches) ? 1 : 0);
  report.loss = progress_.last_loss;
  report.skipped_steps = progress_.skipped;
  report.price_per_hour = options_.price_per_hour;
  report.peak_resident_bytes = peak_resident_bytes();
}

inline Report TrainerBase::train(data::BatchSource& batches, data::BatchSource* held_out,
                                 const StopFlag* stop) {
  const std::int64_t start = monotonic_nanoseconds();
  begin(batches, held_out);
  const std::uint64_t steps = progress_.steps;
  const auto out_of_patience = [&] {
    return options_.patience != 0 && progress_.stale >= options_.patience;
  };
  Report report;
  report.stopped_early = out_of_patience();  // one that is resumed may have ended
  report.first_step = progress_.step;
  RunInfo run{.first_step = progress_.step,
              .steps = steps,
              .epochs = options_.epochs,
              .threads = context_.executor().width,
              .ranks = ranks_->count()};
  for (const Parameter& parameter : parameters()) run.parameters += parameter.value().elements();
  for (Callback* callback : callbacks_) callback->on_start(run);

  const auto wants_more = [&] {
    return (steps == 0 || progress_.step < steps) && !report.stopped_early && !report.interrupted;
  };
  std::uint64_t saved_at = progress_.step;
  std::uint64_t empty_epochs = 0;
  while (wants_more()) {
    const std::uint64_t epoch = batches.position().epoch;
    if (options_.epochs != 0 && epoch >= options_.epochs) break;
    const std::int64_t step_start = monotonic_nanoseconds();
    const StepSums sums = gradients_->run(
        batches, {.step = progress_.step,
                  .first_batch = progress_.batches,
                  .batches = options_.accumulate,
                  .loss_scale = options_.precision.loss_scaling ? scaler_.scale() : 1});
    const bool any = sums.batches != 0;
    if (any) {
      empty_epochs = 0;
      StepInfo info = step(sums);
      info.epoch = epoch;
      info.seconds = static_cast<double>(monotonic_nanoseconds() - step_start) * 1e-9;
      detail::add_step(report, info);
      for (Callback* callback : callbacks_) callback->on_step(info);
    } else if (++empty_epochs > 1) {
      fail(error_id::train_options, "Trainer::fit", "batches", "a source without any",
           "at least one batch in an epoch");
    }
    // The step may have found the end itself, with fewer batches than it was to accumulate.
    const bool epoch_ended = batches.position().epoch != epoch;
    const bool due = options_.evaluate_every == 0
                         ? epoch_ended && progress_.step != progress_.evaluated_at
                         : any && progress_.step % options_.evaluate_every == 0;
    if (held_out != nullptr && due) evaluate(*held_out, report, epoch);
    report.stopped_early = out_of_patience();
    bool enough = false;
    for (Callback* callback : callbacks_) enough |= callback->take_stop();
    if (ranks_->any(enough || (any && stop != nullptr && stop->requested()))) {
      if (ranks_->any(enough))
        report.stopped_early = true;
      else
        report.interrupted = wants_more();
    }
    if (options_.checkpoint_every != 0 && any && progress_.step % options_.checkpoint_every == 0 &&
        !report.interrupted) {
      save(batches);
      saved_at = progress_.step;
    }
  }
  clear_gradients(parameters());
  optimizer_->settle();
  // At an epoch's end a longer run evaluates, too, and a checkpoint remembers it; elsewhere it
  // would not have, and the checkpoint comes first.
  const auto save_end = [&] {
    if (has_store_ && saved_at != progress_.step) save(batches);
    saved_at = progress_.step;
  };
  const bool evaluates =
      held_out != nullptr && !report.interrupted && progress_.step != progress_.evaluated_at;
  if (!evaluates || options_.evaluate_every != 0 || !detail::at_epoch_end(batches)) save_end();
  if (evaluates) evaluate(*held_out, report, batches.position().epoch);
  save_end();
  if (options_.keep_best && progress_.has_best && !report.interrupted)
    best_.load(context_, *ranks_, parameters());
  // The weights were evaluated before this run went on from a checkpoint.
  if (held_out != nullptr && !report.interrupted && !report.evaluated)
    report.take(gradients_->evaluate(*held_out));

  finish(batches, report);
  report.total_seconds = static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
  for (Callback* callback : callbacks_) callback->on_end(report);
  return report;
}

inline Report TrainerBase::fit(data::BatchSource& batches, data::BatchSource* held_out,
                               const StopFlag* stop) {
#if SOMA_HAS_EXCEPTIONS
  try {
    return train(batches, held_out, stop);
  } catch (const std::exception& error) {
    ranks_->abort(error.what());
    throw;
  } catch (...) {
    ranks_->abort("something that is no std::exception was thrown");
    throw;
  }
#else
  return train(batches, held_out, stop);  // the end of this process tells the others
#endif
}

}  // namespace soma::train
