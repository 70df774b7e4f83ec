#pragma once
// The functions of checks.hpp.

#include <soma/train/checks.hpp>

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
  if (!(*schedule.rate >= 0) || std::isinf(*schedule.rate))
    fail(error_id::train_options, "Trainer", "learning_rate", to_text(*schedule.rate),
         "a finite number from 0");
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
  if (options.epochs == 0 && options.max_steps == 0) refuse("epochs", "0", "epochs or max_steps");
  constexpr std::uint64_t most_epochs = std::uint64_t{1} << 24;  // their batches are counted first
  if (options.epochs > most_epochs)
    refuse("epochs", std::to_string(options.epochs), "at most 2^24");
  if (options.accumulate == 0) refuse("accumulate", "0", "at least 1");
  const double decay = options.weight_decay.value_or(0);
  if (!(decay >= 0) || std::isinf(decay))
    refuse("weight_decay", to_text(decay), "a finite number from 0");
  if (!(options.clip >= 0)) refuse("clip", to_text(options.clip), "a number from 0");
  if (options.optimizer != nullptr && (options.weight_decay || options.decay_all))
    refuse("weight_decay and decay_all", "given", "neither beside an optimizer of the host's own");
  const std::string names = metric_names(task);
  if ((", " + names + ",").find(", " + options.best_metric + ",") == std::string::npos)
    refuse("best_metric", soma::quoted(options.best_metric), "one of " + names);
  if (options.checkpoints == nullptr && first && (options.checkpoint_every != 0 || options.resume))
    refuse("checkpoints", "none", "a store, to save to or to resume from");
}

}  // namespace SOMA_NAMESPACE::train
