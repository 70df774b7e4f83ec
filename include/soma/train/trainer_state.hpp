#pragma once
// The members of TrainerBase that check its options, and that save and load the state of a run.

#include <soma/data/content_hash.hpp>
#include <soma/state/arithmetic.hpp>
#include <soma/state/operators.hpp>
#include <soma/train/trainer_base.hpp>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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

}  // namespace soma::train
