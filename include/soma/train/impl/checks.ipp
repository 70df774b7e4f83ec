#pragma once
// The functions of checks.hpp.

#include <soma/train/checks.hpp>

#include <soma/ops/fields.hpp>
#include <soma/train/evaluate.hpp>
#include <soma/train/options.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE optim::Schedule schedule_of(const nn::Task& task, const TrainerOptions& options) {
  optim::Schedule schedule = options.schedule;
  if (options.learning_rate && schedule.rate)
    fail(error_id::train_options, "Trainer", "schedule.rate", to_text(*schedule.rate),
         "none beside a learning_rate of " + to_text(*options.learning_rate));
  if (options.learning_rate) schedule.rate = options.learning_rate;
  if (!schedule.rate) schedule.rate = task.learning_rate();
  check_range("Trainer", "learning_rate", *schedule.rate, NumberRange::at_least(0),
              error_id::train_options);
  schedule.check_settings();
  return schedule;
}

SOMA_INLINE std::string metric_names(const nn::Task& task) {
  std::string names = "loss";
  if (const Owned<metrics::Metrics> metrics = detail::metrics_of(task))
    for (const metrics::Value& value : metrics->values()) names.append(", ").append(value.name);
  return names;
}

SOMA_INLINE void check_options(const nn::Task& task, const TrainerOptions& options, bool first) {
  const auto refuse = [](std::string_view name, const std::string& given, std::string_view wanted) {
    fail(error_id::train_options, "Trainer", name, given, wanted);
  };
  check_ranges("Trainer", options, error_id::train_options);
  if (options.epochs == 0 && options.max_steps == 0) refuse("epochs", "0", "epochs or max_steps");
  if (options.optimizer != nullptr && (options.weight_decay || options.decay_all))
    refuse("weight_decay and decay_all", "given", "neither beside an optimizer of the host's own");
  const std::string names = metric_names(task);
  if ((", " + names + ",").find(", " + options.best_metric + ",") == std::string::npos)
    refuse("best_metric", soma::quoted(options.best_metric), "one of " + names);
  if (options.checkpoints == nullptr && first && (options.checkpoint_every != 0 || options.resume))
    refuse("checkpoints", "none", "a store, to save to or to resume from");
}

SOMA_INLINE void check_early(const TrainerOptions& options, int ranks) {
  if (!options.step_early) return;
  const auto want = [](bool holds, const std::string& given, std::string_view wanted) {
    if (!holds)
      fail(error_id::train_options, "Trainer", "step_early", "true, with " + given, wanted);
  };
  want(options.clip == 0, "clip " + to_text(options.clip), "clip 0: the norm comes too late");
  want(options.accumulate == 1, "accumulate " + std::to_string(options.accumulate),
       "one batch a step");
  want(ranks == 1, std::to_string(ranks) + " ranks", "one process");
  want(options.gradients == nullptr, "gradients of the host's own", "those of the trainer");
  want(!options.loss_scaling && !options.precision.loss_scaling, "a loss scale",
       "none: a step could not be skipped");
  want(options.non_finite == NonFinite::stop, "NonFinite::skip",
       "NonFinite::stop: a step could not be skipped");
}

}  // namespace SOMA_NAMESPACE::train
