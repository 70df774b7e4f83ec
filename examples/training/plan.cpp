#include "training/plan.hpp"

#include "training/optimizer.hpp"

#include <soma/system/machine.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

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

soma::train::PlanTable plan_table(soma::Context& context, soma::nn::Task& task,
                                  soma::data::BatchSource& source,
                                  soma::data::BatchSource* held_out,
                                  soma::train::TrainerOptions settings, const RunOptions& options,
                                  std::size_t ranks, std::vector<soma::train::PlanRow> others) {
  settings.keep_best = settings.keep_best && options.checkpoint.empty();  // else files have them
  const auto optimizer = make_optimizer(context, task.parameters(), options, settings.precision);
  settings.optimizer = optimizer.get();
  return soma::train::plan(context, task, source, settings,
                           {.ranks = ranks,
                            .memory_limit = options.ranks.memory_limit,
                            .network = options.ranks.network,
                            .held_out = held_out,
                            .others = std::move(others)});
}

void print_plan(const PlanSettings& settings, const RunOptions& options, const PlanRows& rows) {
  const int cores = soma::system::processors();
  const int threads = options.compute.threads;
  // One process may use all cores; ranks of one machine share them.
  soma::train::PlanTable table = rows(1, threads != 0 ? threads : cores, {});
  if (settings.ranks != 1) {
    const int each = threads != 0 ? threads
                     : options.ranks.network != 0
                         ? cores
                         : (std::max)(1, cores / static_cast<int>(settings.ranks));
    table = rows(settings.ranks, each, std::move(table.rows));
  }
  if (settings.json)
    print_json(table);
  else
    std::cout << to_string(table);
}
