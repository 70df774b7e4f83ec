#pragma once
// The members of TrainerBase: the loop, and what it remembers.

#include <soma/optim/gradients.hpp>
#include <soma/runtime/usage.hpp>
#include <soma/state/arithmetic.hpp>
#include <soma/state/operators.hpp>
#include <soma/train/trainer_base.hpp>
#include <soma/train/trainer_parallel.hpp>

#include <cmath>
#include <utility>

namespace soma::train {

inline void TrainerBase::check_options() const {
  const auto refuse = [](std::string_view name, double given, std::string_view wanted) {
    fail(error_id::train_options, "Trainer", name, to_text(given), wanted);
  };
  if (options_.epochs == 0 && options_.max_steps == 0) refuse("epochs", 0, "epochs or max_steps");
  constexpr std::uint64_t most_epochs = std::uint64_t{1} << 24;  // their batches are counted first
  if (options_.epochs > most_epochs)
    refuse("epochs", static_cast<double>(options_.epochs), "at most 2^24");
  if (options_.accumulate == 0) refuse("accumulate", 0, "at least 1");
  if (!(options_.learning_rate >= 0) || std::isinf(options_.learning_rate))
    refuse("learning_rate", options_.learning_rate, "a finite number from 0");
  if (!(options_.weight_decay >= 0) || std::isinf(options_.weight_decay))
    refuse("weight_decay", options_.weight_decay, "a finite number from 0");
  if (!(options_.clip >= 0)) refuse("clip", options_.clip, "a number from 0");
  if (options_.checkpoints == nullptr && ranks_.first() &&
      (options_.checkpoint_every != 0 || options_.resume))
    fail(error_id::train_options, "Trainer", "checkpoints", "none",
         "a store, to save to or to resume from");
  if (!ranks_.alone() && !task_.takes_parts())
    fail(error_id::train_options, "Trainer", "task", "one whose loss is always a mean",
         "one that several ranks can share (Task::takes_parts)");
}

inline optim::AdamW TrainerBase::make_optimizer() {
  check_options();
  give_precision();
  const auto decay = static_cast<float>(options_.weight_decay);
  const Parameters& parameters = task_.parameters();
  const optim::AdamWOptions options{
      .storage = {.state = find_dtype(options_.precision.moments.format),
                  .state_rounding = options_.precision.moments.rounding,
                  .weight_rounding = options_.precision.weights.rounding,
                  .seed = options_.seed}};
  if (options_.decay_all)
    return optim::AdamW(context_, {{.parameters = parameters, .weight_decay = decay}}, options);
  return optim::AdamW(context_, optim::decay_groups(parameters, decay), options);
}

inline void TrainerBase::give_precision() {
  const DType weights = find_dtype(options_.precision.weights.format);
  for (const Parameter& parameter : task_.parameters()) {
    const Tensor& value = parameter.var.value();
    if (value.rank() < 2 || value.dtype() == weights) continue;
    parameter.var.set_value(
        run(context_, *context_.built_in().cast, CastSetting{.dtype = weights}, {value})[0]);
  }
}

// 0: not known.
inline std::uint64_t TrainerBase::count_steps(const data::BatchSource& batches) const {
  std::uint64_t total = 0;
  for (std::uint64_t epoch = 0; epoch < options_.epochs; ++epoch) {
    const std::uint64_t count = batches.batches(epoch);
    if (count == 0) return options_.max_steps;
    total += (count + options_.accumulate - 1) / options_.accumulate;
    if (options_.max_steps != 0 && total >= options_.max_steps) return options_.max_steps;
  }
  return options_.epochs == 0 ? options_.max_steps : total;
}

inline Record TrainerBase::identity(const data::BatchSource& batches) const {
  Record record("identity");
  add_arithmetic(record, context_);
  data::ContentHash shapes;
  std::uint64_t numbers = 0;
  for (const Parameter& parameter : task_.parameters()) {
    const std::string text = parameter.name + " " + parameter.value().describe();
    shapes.add_list(std::span(text.data(), text.size()));
    numbers += parameter.value().elements();
  }
  record.set("parameters", numbers);
  record.set("names_and_shapes", shapes.value());
  task_.describe(record);
  record.set("data", batches.hash());
  record.set("epochs", options_.epochs);
  record.set("max_steps", options_.max_steps);
  record.set("accumulate", options_.accumulate);
  record.set("learning_rate", options_.learning_rate);
  record.set("schedule", static_cast<std::uint64_t>(options_.schedule));
  record.set("warmup_steps", options_.warmup_steps);
  record.set("weight_decay", options_.weight_decay);
  record.set("decay_all", options_.decay_all);
  record.set("clip", options_.clip);
  record.set("seed", options_.seed);
  record.set("precision", to_string(options_.precision));
  return record;
}

inline void TrainerBase::save(const data::BatchSource& batches) {
  Checkpoint checkpoint;
  checkpoint.weights = nn::state_dict(task_.parameters());
  save_optimizer(checkpoint);
  checkpoint.precision = precision_.state();
  checkpoint.identity = identity(batches);
  Record& record = checkpoint.progress;
  const data::Position position = batches.position();
  record.set("step", progress_.step);
  record.set("epoch", position.epoch);
  record.set("batch", position.batch);
  record.set("batches", progress_.batches);
  record.set("skipped", progress_.skipped);
  record.set("skipped_in_a_row", progress_.skipped_in_a_row);
  record.set("evaluated_at", progress_.evaluated_at);
  record.set("stale", progress_.stale);
  record.set("has_best", progress_.has_best);
  record.set("best", progress_.best);
  record.set("last_loss", progress_.last_loss);
  record.set("loss_scale", double{scaler_.scale()});
  record.set("loss_scale_good_steps", scaler_.good_steps());
  set_operators(record, context_);
  if (ranks_.first()) options_.checkpoints->save(progress_.step, checkpoint);
  ranks_.barrier();
  for (Callback* callback : callbacks_) callback->on_checkpoint(progress_.step);
}

inline void TrainerBase::resume(data::BatchSource& batches) {
  Checkpoint checkpoint;
  const bool found = ranks_.first() && options_.checkpoints->load_latest(context_, checkpoint);
  if (!ranks_.from_first(found)) return;
  if (ranks_.alone())
    load(checkpoint, batches);
  else
    load(ranks_.from_first(checkpoint), batches);
}

inline void TrainerBase::load(const Checkpoint& checkpoint, data::BatchSource& batches) {
  check_operators(checkpoint.progress, context_);
  check_identity(checkpoint.identity, identity(batches));
  const Record& record = checkpoint.progress;
  Progress loaded;
  loaded.step = record.count("step");
  loaded.batches = record.count("batches");
  loaded.skipped = record.count("skipped");
  loaded.skipped_in_a_row = record.count("skipped_in_a_row");
  loaded.evaluated_at = record.count("evaluated_at");
  loaded.stale = record.count("stale");
  loaded.has_best = record.boolean("has_best");
  loaded.best = record.number("best");
  loaded.last_loss = record.number("last_loss");
  const data::Position position{record.count("epoch"), record.count("batch")};
  optimizer_.load_state(checkpoint.optimizer);
  precision_.load_state(checkpoint.precision);
  scaler_.restore(static_cast<float>(record.number("loss_scale")),
                  record.count("loss_scale_good_steps"));
  nn::load(task_.parameters(), checkpoint.weights, {.extra_names_are_errors = true});
  batches.seek(position);
  progress_ = loaded;
}

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
