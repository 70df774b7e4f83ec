#pragma once
// The members of TrainerBase that make the loop: gradients, steps, evaluations.

#include <soma/optim/gradients.hpp>
#include <soma/runtime/usage.hpp>
#include <soma/state/operators.hpp>
#include <soma/train/trainer_base.hpp>
#include <soma/train/trainer_parallel.hpp>
#include <soma/train/trainer_state.hpp>

#include <cmath>
#include <utility>

namespace soma::train {

// Forward and backward of the batches of one step. False: the epoch had none left.
inline bool TrainerBase::gather(data::BatchSource& batches, Tape& tape, Gathered& sums) {
  clear_gradients(task_.parameters());
  ranks_.begin_step(progress_.step);
  std::vector<PartLoss> losses;
  const ReductionTimes before = ranks_.reduction_times();
  for (std::size_t part = 0; part < options_.accumulate; ++part) {
    const std::int64_t start = monotonic_nanoseconds();
    data::Batch batch;
    const bool more = batches.next(batch);
    sums.wait += static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
    if (!more) break;
    // Each batch draws its own dropout.
    tape.reset(static_cast<std::uint32_t>(progress_.batches));
    ++progress_.batches;
    const data::Batch part_batch = ranks_.alone() ? batch : ranks_.part_of(batch);
    const nn::Task::Forward forward = task_.forward(tape, part_batch);
    // A step's loss is the mean over all its batches, which weigh as much as the task counts.
    const double count = task_.loss_count(batch);
    const float scale = options_.precision.loss_scaling ? scaler_.scale() : 1;
    float weight = scale * static_cast<float>(options_.accumulate == 1 ? 1 : count);
    const float loss = forward.loss.value().data<float>()[0];
    if (!ranks_.alone()) {
      losses.push_back({loss, count});
      weight = count == 0 ? 0 : weight / static_cast<float>(count);
    } else if (count != 0) {
      sums.loss += static_cast<double>(loss) * count;
    }
    sums.losses += count;
    sums.sequences += batch.inputs.sequences.count();
    sums.tokens += batch.inputs.sequences.rows();
    sums.flops += task_.useful_flops(batch);
    ++sums.batches;
    if (task_.classes() != 0 && forward.scores.defined()) {
      ClassificationMetrics hits(task_.classes());
      const Tensor scores = detail::scores_of(context_, task_, forward, part_batch);
      detail::add_cases(hits, scores.span<float>(), nn::class_labels(part_batch));
      sums.classified += hits.cases();
      sums.correct += hits.correct();
    }
    tape.backward(forward.loss, weight);
    ranks_.finish_gradients();  // or those of embeddings would wait, and all that follows them
  }
  const ReductionTimes after = ranks_.reduction_times();
  sums.reduction = {after.total - before.total, after.waited - before.waited};
  if (!ranks_.alone() && sums.batches != 0) add_losses(losses, sums);
  return sums.batches != 0;
}

inline void TrainerBase::finish_step(const Gathered& sums, StepInfo& info,
                                     const optim::Schedule& schedule) {
  constexpr std::uint64_t most_skips = 25;
  const FloatEnvironment environment;
  const bool scaled = options_.precision.loss_scaling;
  // Where none counts, as where all labels are ignored, loss and gradients are zero; decay and
  // moments of the optimizer go on.
  const double losses = sums.losses == 0 ? 1 : sums.losses;
  const double share =
      (options_.accumulate == 1 ? 1.0 : 1.0 / losses) * (scaled ? double{scaler_.inverse()} : 1.0);
  info.loss = sums.loss / losses;
  info.gradient_norm = gradient_norm() * share;
  info.learning_rate = schedule(progress_.step);
  const bool finite = std::isfinite(info.gradient_norm);
  // A gradient that overflowed under a scale says that the scale was too large.
  const bool too_large = scaled && !scaler_.update(finite) && std::isfinite(info.loss) &&
                         scaler_.scale() > scaler_.options().smallest;
  if (std::isfinite(info.loss) && finite) {
    const float clipping =
        options_.clip == 0 ? 1.0f : optim::clipping_factor(info.gradient_norm, options_.clip);
    optimizer_.step(
        {.rate = info.learning_rate,
         .gradient_factor = share == 1 ? clipping : static_cast<float>(share * double{clipping})});
    if (options_.shard_optimizer && !ranks_.alone()) ranks_.gather_rows(task_.parameters());
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
  progress_.last_loss = info.loss;
  info.step = progress_.step;
  info.tokens = sums.tokens;
  info.sequences = sums.sequences;
  info.classified = sums.classified;
  info.correct = sums.correct;
  info.wait_seconds = sums.wait;
  info.useful_flops = sums.flops;
  info.reduction_seconds = sums.reduction.total;
  info.reduction_wait_seconds = sums.reduction.waited;
}

inline void TrainerBase::keep_best() {
  if (has_store_) {
    if (!ranks_.first()) return ranks_.barrier();
    Checkpoint best;
    best.weights = nn::state_dict(task_.parameters());
    best.progress.set("step", progress_.step);
    best.progress.set("score", progress_.best);
    set_operators(best.progress, context_);
    options_.checkpoints->save_best(best);
    return ranks_.barrier();
  }
  best_ = StateDict();
  for (const auto& [name, tensor] : nn::state_dict(task_.parameters()))
    best_.set(name, clone(context_, tensor));
}

inline void TrainerBase::load_best() {
  if (has_store_) {
    Checkpoint best;
    const bool found = ranks_.first() && options_.checkpoints->load_best(context_, best);
    if (!ranks_.from_first(found)) return;
    if (!ranks_.alone()) best = ranks_.from_first(best);
    nn::load(task_.parameters(), best.weights);
  } else if (!best_.empty()) {
    nn::load(task_.parameters(), best_);
  }
}

inline void TrainerBase::evaluate_now(data::BatchSource& held_out, Report& report,
                                      std::uint64_t epoch) {
  Evaluation evaluation = evaluate_all(held_out);
  const double score = task_.classes() != 0 ? evaluation.metrics.accuracy() : -evaluation.loss;
  const bool better = !std::isnan(score) && (!progress_.has_best || score > progress_.best);
  progress_.stale = better ? 0 : progress_.stale + 1;
  progress_.evaluated_at = progress_.step;
  if (better) {
    progress_.best = score;
    progress_.has_best = true;
    if (options_.keep_best) keep_best();
  }
  const EvaluationInfo info{.step = progress_.step,
                            .epoch = epoch,
                            .metrics = &evaluation.metrics,
                            .loss = evaluation.loss,
                            .seconds = evaluation.seconds,
                            .best = better};
  for (Callback* callback : callbacks_) callback->on_evaluation(info);
  if (better || !options_.keep_best) {
    report.metrics = std::move(evaluation.metrics);
    report.evaluation_loss = evaluation.loss;
    report.evaluated = true;
  }
}

// Checks what can be wrong before the first step, and puts the run where it begins or goes on.
inline optim::Schedule TrainerBase::begin(data::BatchSource& batches,
                                          const data::BatchSource* held_out) {
  progress_ = {};
  best_ = StateDict();
  const std::uint64_t steps = count_steps(batches);
  if (steps == 0 && options_.schedule != optim::Decay::constant)
    fail(error_id::train_steps_unknown, "Trainer::fit", "batches", "a source of unknown length",
         "max_steps, or a constant schedule");
  const optim::Schedule schedule{.rate = options_.learning_rate,
                                 .decay = options_.schedule,
                                 .warmup = options_.warmup_steps,
                                 .steps = steps};
  static_cast<void>(schedule(0));  // what is wrong with it shows here
  has_store_ = options_.checkpoints != nullptr;
  if (!ranks_.alone()) begin_ranks(batches, held_out, steps);
  batches.seek({});
  if (options_.resume) resume(batches);
  return schedule;
}

inline RunInfo TrainerBase::run_info(std::uint64_t steps) const {
  RunInfo info{.first_step = progress_.step,
               .steps = steps,
               .epochs = options_.epochs,
               .threads = context_.executor().width,
               .ranks = ranks_.count()};
  for (const Parameter& parameter : task_.parameters())
    info.parameters += parameter.value().elements();
  return info;
}

// What a report says of the run's end, but for metrics and times.
inline void TrainerBase::finish(const data::BatchSource& batches, Report& report) const {
  report.steps = progress_.step;
  const data::Position end = batches.position();  // behind the last batch, or in the next epoch
  const bool at_end = end.batch != 0 && end.batch == batches.batches(end.epoch);
  report.epochs = end.epoch + (at_end ? 1 : 0);
  report.loss = progress_.last_loss;
  report.skipped_steps = progress_.skipped;
  report.price_per_hour = options_.price_per_hour;
  report.peak_resident_bytes = peak_resident_bytes();
}

namespace detail {

inline void add_step(Report& report, const StepInfo& step) {
  report.tokens += step.tokens;
  report.sequences += step.sequences;
  report.train_seconds += step.seconds;
  report.wait_seconds += step.wait_seconds;
  report.useful_flops += step.useful_flops;
  report.reduction_seconds += step.reduction_seconds;
  report.reduction_wait_seconds += step.reduction_wait_seconds;
}

}  // namespace detail

inline Report TrainerBase::train(data::BatchSource& batches, data::BatchSource* held_out,
                                 const StopFlag* stop) {
  const std::int64_t start = monotonic_nanoseconds();
  const optim::Schedule schedule = begin(batches, held_out);
  const std::uint64_t steps = schedule.steps;

  const auto out_of_patience = [&] {
    return options_.patience != 0 && progress_.stale >= options_.patience;
  };
  Report report;
  report.stopped_early = out_of_patience();  // one that is resumed may have ended
  report.first_step = progress_.step;
  const RunInfo run = run_info(steps);
  for (Callback* callback : callbacks_) callback->on_start(run);

  Tape tape(context_, {.seed = options_.seed,
                       .activations = precision_.activations(),
                       .precision = &precision_,
                       .receiver = ranks_.receiver()});
  const auto wants_more = [&] {
    return (steps == 0 || progress_.step < steps) && !report.stopped_early && !report.interrupted;
  };
  std::uint64_t saved_at = progress_.step;
  std::uint64_t empty_epochs = 0;
  while (wants_more()) {
    const std::uint64_t epoch = batches.position().epoch;
    if (options_.epochs != 0 && epoch >= options_.epochs) break;
    const std::int64_t step_start = monotonic_nanoseconds();
    Gathered sums;
    const bool any = gather(batches, tape, sums);
    if (any) {
      empty_epochs = 0;
      StepInfo info;
      info.epoch = epoch;
      finish_step(sums, info, schedule);
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
    if (held_out != nullptr && due) evaluate_now(*held_out, report, epoch);
    report.stopped_early = out_of_patience();
    report.interrupted = any && ranks_.any(stop != nullptr && stop->requested()) && wants_more();
    if (options_.checkpoint_every != 0 && any && progress_.step % options_.checkpoint_every == 0 &&
        !report.interrupted) {
      save(batches);
      saved_at = progress_.step;
    }
  }
  clear_gradients(task_.parameters());
  if (held_out != nullptr && !report.interrupted && progress_.step != progress_.evaluated_at)
    evaluate_now(*held_out, report, batches.position().epoch);
  if (has_store_ && saved_at != progress_.step) save(batches);
  if (options_.keep_best && progress_.has_best && !report.interrupted) load_best();
  if (held_out != nullptr && !report.interrupted && !report.evaluated) {
    // The weights were evaluated before this run went on from a checkpoint.
    Evaluation evaluation = evaluate_all(*held_out);
    report.metrics = std::move(evaluation.metrics);
    report.evaluation_loss = evaluation.loss;
    report.evaluated = true;
  }

  finish(batches, report);
  report.total_seconds = static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
  for (Callback* callback : callbacks_) callback->on_end(report);
  return report;
}

}  // namespace soma::train
