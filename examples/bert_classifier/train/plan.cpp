// plan: the ways to lay a training out on ranks, before it runs.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/train/parts.hpp"
#include "training/arguments.hpp"
#include "training/compute.hpp"
#include "training/launch/launch.hpp"
#include "training/optimizer.hpp"

#include <soma/pipeline.hpp>
#include <soma/soma.hpp>
#include <soma/system/machine.hpp>

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

// Plans for so many ranks, each with so many threads.
soma::train::PlanTable table_of(const PlanCommand& command, const TrainingRows& rows,
                                Launch& launch, std::size_t ranks, int threads,
                                std::vector<soma::train::PlanRow> others) {
  const TrainOptions& options = command.train;
  ComputeOptions computing = options.compute;
  computing.threads = threads;
  Compute compute(computing);
  soma::Context& context = compute.context();
  soma::nn::Later later;
  const auto model = make_model(context, options, rows, &later);
  soma::data::BatchOptions batching = batch_options(options);
  const auto source = make_source(context, *model, rows, batching);
  batching.shuffle = false;
  const auto held_out =
      rows.held_out.empty() ? nullptr : model->batches(rows.held_out, batching, &stop_requested);
  soma::train::TrainerOptions settings = trainer_options(options, launch);
  settings.pipeline = {.later = &later};
  settings.keep_best = settings.keep_best && options.checkpoint.empty();  // else files have them
  const auto optimizer = make_optimizer(context, model->parameters(), options, settings.precision);
  settings.optimizer = optimizer.get();
  return soma::train::plan(context, *model, *source, settings,
                           {.ranks = ranks,
                            .memory_limit = options.ranks.memory_limit,
                            .network = options.ranks.network,
                            .held_out = held_out.get(),
                            .others = std::move(others)});
}

nlohmann::json json_of(const soma::train::PlanTable& table, const soma::train::PlanRow& row) {
  using namespace soma::train;
  nlohmann::json stages = nlohmann::json::array();
  for (const MemoryEstimate& stage : row.stages) {
    nlohmann::json parts = nlohmann::json::object();
    for (const auto& [name, bytes] : parts_of(stage)) parts[std::string(name)] = bytes;
    stages.push_back(std::move(parts));
  }
  const PlanLayout& layout = row.layout;
  return {{"partitions", layout.partitions},
          {"replicas", layout.replicas},
          {"microbatches", layout.microbatches},
          {"pipeline", layout.schedule == Pipeline::simple ? "simple" : "interleaved"},
          {"optimize", layout.optimize == Optimize::speed ? "speed" : "memory"},
          {"recompute", layout.recompute},
          {"shard_optimizer", layout.shard_optimizer},
          {"threads", row.threads},
          {"cuts", table.cuts_of(row)},
          {"seconds", row.seconds},
          {"bytes", row.bytes},
          {"sent", row.sent},
          {"reason", row.reason},
          {"stages", std::move(stages)}};
}

void print_json(const soma::train::PlanTable& table) {
  nlohmann::json rows = nlohmann::json::array();
  for (const soma::train::PlanRow& row : table.rows) rows.push_back(json_of(table, row));
  const auto index = [](std::size_t row) {
    return row == soma::train::PlanTable::none ? nlohmann::json() : nlohmann::json(row);
  };
  const nlohmann::json all = {
      {"memory_limit", table.memory_limit},   {"best", index(table.best)},
      {"smallest", index(table.smallest)},    {"between", index(table.between)},
      {"batches", table.lengths.batches},     {"profile_seconds", table.profile_seconds},
      {"table_seconds", table.table_seconds}, {"rows", std::move(rows)}};
  std::cout << all.dump(2) << '\n';
}

}  // namespace

int plan(const PlanCommand& command, Launch& launch) {
  if (command.train.kind != "bert") throw UsageError("plan needs --kind bert");
  const TrainingRows rows = training_rows(command.train, 1);
  const int cores = soma::system::processors();
  const int threads = command.train.compute.threads;
  // One process may use all cores; ranks of one machine share them.
  const int all = threads != 0 ? threads : cores;
  soma::train::PlanTable table = table_of(command, rows, launch, 1, all, {});
  if (command.ranks != 1) {
    const int each = threads != 0 ? threads
                     : command.train.ranks.network != 0
                         ? cores
                         : (std::max)(1, cores / static_cast<int>(command.ranks));
    table = table_of(command, rows, launch, command.ranks, each, std::move(table.rows));
  }
  if (command.json)
    print_json(table);
  else
    std::cout << to_string(table);
  return 0;
}
