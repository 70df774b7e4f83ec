#pragma once
// The functions of identity.hpp.

#include <soma/train/identity.hpp>

#include <soma/data/batch.hpp>
#include <soma/data/content_hash.hpp>
#include <soma/nn/task.hpp>
#include <soma/numeric/precision_text.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/state/arithmetic.hpp>
#include <soma/train/options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::train {

// The numbers that a decay reads beside the rate, the warm-up and the length.
SOMA_INLINE void add_schedule(Record& record, const optim::Schedule& schedule) {
  using optim::Decay;
  const auto is = [&](std::initializer_list<Decay> some) {
    return std::find(some.begin(), some.end(), schedule.decay) != some.end();
  };
  if (is({Decay::step, Decay::exponential, Decay::warm_restarts}))
    record.set("schedule.every", schedule.every);
  if (is({Decay::step, Decay::exponential, Decay::plateau, Decay::milestones}))
    record.set("schedule.factor", schedule.factor);
  if (is({Decay::milestones})) {
    std::string all;
    for (const std::uint64_t step : schedule.milestones)
      all.append(all.empty() ? "" : " ").append(std::to_string(step));
    record.set("schedule.milestones", all);
  }
  if (is({Decay::one_cycle})) record.set("schedule.start_ratio", schedule.start_ratio);
  if (is({Decay::warm_restarts})) {
    record.set("schedule.final_ratio", schedule.final_ratio);
    record.set("schedule.growth", schedule.growth);
  }
  if (is({Decay::own})) record.set("schedule.function", schedule.name);
}

SOMA_INLINE Record identity_of(const Context& context, const nn::Task& task,
                               const data::BatchSource& batches, const TrainerOptions& options,
                               const optim::Schedule& schedule, const optim::Optimizer& optimizer) {
  Record record("identity");
  add_arithmetic(record, context);
  std::uint64_t numbers = 0;
  for (const Parameter& parameter : task.parameters()) numbers += parameter.value().elements();
  record.set("parameters", numbers);
  data::ContentHash frozen;
  std::uint64_t frozen_count = 0;
  for (const Parameter& parameter : task.parameters()) {
    if (!parameter.var.frozen()) continue;
    ++frozen_count;
    frozen.add_text(parameter.name);
  }
  if (frozen_count != 0) {
    record.set("frozen", frozen_count);
    record.set("frozen.names", frozen.value());
  }
  task.describe(record);
  batches.describe(record);
  record.set("accumulate", options.accumulate);
  record.set("learning_rate", *schedule.rate);
  record.set("schedule", optim::decay_names[static_cast<std::size_t>(schedule.decay)]);
  record.set("schedule.warmup", schedule.warmup);
  if (schedule.depends_on_steps()) record.set("schedule.final_ratio", schedule.final_ratio);
  add_schedule(record, schedule);
  if (schedule.decay == optim::Decay::plateau) {
    record.set("schedule.final_ratio", schedule.final_ratio);
    record.set("schedule.patience", schedule.patience);
    record.set("schedule.threshold", schedule.threshold);
    record.set("evaluate_every", options.evaluate_every);
  }
  // Best weights and patience continue from a value of this metric, which cannot be compared with
  // another metric.
  if (options.best_metric != TrainerOptions{}.best_metric ||
      schedule.decay == optim::Decay::plateau)
    record.set("best_metric", options.best_metric);
  record.set("clip", options.clip);
  record.set("seed", options.seed);
  record.set("precision", to_string(options.precision));
  if (options.loss_scaling) {
    record.set("loss_scaling.initial", double{options.loss_scaling->initial});
    record.set("loss_scaling.smallest", double{options.loss_scaling->smallest});
    record.set("loss_scaling.largest", double{options.loss_scaling->largest});
    record.set("loss_scaling.growth_interval",
               std::uint64_t{options.loss_scaling->growth_interval});
  }
  if (options.average) {
    record.set("average.decay", options.average->decay);
    record.set("average.from", options.average->from);
    record.set("average.every", options.average->every);
  }
  optimizer.describe(record);
  return record;
}

SOMA_INLINE std::optional<std::uint64_t> frozen_values(Context& context,
                                                       const Parameters& parameters) {
  Parameters frozen;
  for (const Parameter& parameter : parameters)
    if (parameter.var.frozen()) frozen.push_back(parameter);
  if (frozen.empty()) return std::nullopt;
  std::vector<std::uint64_t> hashes(frozen.size());
  parallel(context, static_cast<int>(frozen.size()), [&](int index) {
    const auto i = static_cast<std::size_t>(index);
    const Tensor value = contiguous(context, frozen[i].value());
    data::ContentHash hash;
    hash.add_text(frozen[i].name);
    hash.add_text(value.describe());
    hash.add_bytes({value.raw(), value.bytes()});
    hashes[i] = hash.value();
  });
  return std::accumulate(hashes.begin(), hashes.end(), std::uint64_t{0});
}

SOMA_INLINE std::string content_of(const data::BatchSource* rows) {
  if (rows == nullptr) return "none";
  Record description("validation");
  rows->describe(description);
  const RecordValue* content = description.find("data.content");
  if (content == nullptr) return std::to_string(rows->hash());
  return content->kind == RecordValue::Kind::text ? content->text : to_text(*content);
}

SOMA_INLINE Record agreement_of(Record identity, const Parameters& parameters,
                                const data::BatchSource* validation, const TrainerOptions& options,
                                std::uint64_t steps, bool saves_parts) {
  data::ContentHash shapes;
  for (const Parameter& parameter : parameters) {
    const std::string text = parameter.name + " " + parameter.value().describe();
    shapes.add_list(std::span(text.data(), text.size()));
  }
  identity.set("names_and_shapes", shapes.value());
  identity.set("steps", steps);
  identity.set("epochs", options.epochs);
  identity.set("held_out", validation == nullptr ? std::uint64_t{0} : validation->hash());
  identity.set("non_finite", static_cast<std::uint64_t>(options.non_finite));
  identity.set("evaluate_every", options.evaluate_every);
  identity.set("best_metric", options.best_metric);
  identity.set("patience", options.patience);
  identity.set("keep_best", options.keep_best);
  identity.set("checkpoint_every", options.checkpoint_every);
  identity.set("resume", options.resume);
  identity.set("keep_warmup", options.keep_warmup);
  identity.set("reduce_bucket_bytes", options.reduce_bucket_bytes);
  identity.set("shard_optimizer", options.shard_optimizer);
  identity.set("same_graphs", options.same_graphs);
  describe(options.pipeline, identity);
  if (saves_parts) identity.set("checkpoints", options.checkpoints == nullptr ? "none" : "a store");
  return identity;
}

SOMA_INLINE void check_parameters(const StateDict& saved, const Parameters& parameters) {
  for (const Parameter& parameter : parameters) {
    const Tensor* found = saved.find(parameter.name);
    const std::string given = parameter.value().describe();
    if (found == nullptr || found->describe() != given)
      fail(error_id::checkpoint_identity, "Trainer::fit",
           "parameter " + soma::quoted(parameter.name), given,
           (found == nullptr ? std::string("none") : found->describe()) +
               ", as the checkpoint has it");
  }
}

}  // namespace SOMA_NAMESPACE::train
