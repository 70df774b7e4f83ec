#pragma once
// plan(): a table of the ways to lay a training out on ranks, before it runs: partitions, replicas,
// micro-batches, schedules, recomputation, shared optimizer states. Each row has the bytes of the
// largest rank and the predicted seconds of a step, from one profile of the model's pieces. Needs
// nlohmann-json, for the decision file.

#include <soma/train/pipeline/plan_costs.hpp>
#include <soma/train/pipeline/planner.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::train {

struct PlanRow {
  PlanLayout layout{};
  int threads = 1;                  // threads of each rank
  std::vector<std::size_t> cuts{};  // the first piece of each stage but the first
  std::vector<PieceCost> pieces{};  // for micro-batches of this layout
  std::vector<MemoryEstimate> stages{};
  std::uint64_t bytes = 0;  // the largest rank's process
  std::uint64_t sent = 0;   // by all ranks in a step
  double seconds = 0;       // seconds of a step
  std::string reason{};     // why the row cannot be used; empty: it can
};

struct PlanOptions {
  std::size_t ranks = 1;
  std::uint64_t memory_limit = 0;      // bytes of a rank's process; 0: none
  std::size_t most_microbatches = 64;  // powers of two up to it are tried
  // Bytes a second between ranks that are on machines of their own; 0: all ranks are on this
  // machine and share its cores.
  double network = 0;
  data::BatchSource* held_out = nullptr;  // rows of evaluations
  // Rows that were planned otherwise, such as one process with more threads than a rank has.
  std::vector<PlanRow> others{};
};

void fields(FieldVisitor& visitor, PlanOptions& options);

struct PlanTable {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  std::vector<PlanRow> rows{};
  std::vector<std::string> pieces{};
  std::uint64_t memory_limit = 0;
  // Indices of rows: the least seconds within the limit; the least bytes; and the row within the
  // limit whose product of both is least, if it is neither. `none`: there is no such row.
  std::size_t best = none, smallest = none, between = none;
  BatchSizes lengths{};  // all batches that were read
  double profile_seconds = 0, table_seconds = 0;

  // Marks the three rows.
  void mark();
  std::string cuts_of(const PlanRow& row) const;  // "layer.1 layer.3"
};

// The bits of a training do not depend on the row. Converts the task's parameters to the types of
// the precision, as a trainer does; nothing else changes, and the source stays where it is. Costs
// about ten steps of one process. options.pipeline and options.shard_optimizer play no role, but
// pipeline.later: pieces get their parameters while they are measured. Errors train.options
// (PieceProfiler), operator.value (a number of `wanted`), and those of the task and the source.
PlanTable plan(Context& context, nn::Task& task, data::BatchSource& source,
               const TrainerOptions& options, const PlanOptions& wanted);

// The table, with marks, and what to know of it; ends with a newline.
std::string to_string(const PlanTable& table);

// Chooses the best row for the ranks of options.communicator, and sets options.pipeline,
// options.shard_optimizer and the task's recomputation by it. Rank 0 plans, for all ranks, and
// leaves the decision in options.pipeline.decided, so the trainer does not measure again.
// `held_out` has the rows of evaluations. With a limit the heap asks for the estimated memory at
// once. With options.pipeline.decision the row is kept in that file, and taken from there if
// everything that it depends on is the same; the log says what differs otherwise. Returns a line
// that says which row it is. Collective. Errors parallel.plan (no row is within
// options.pipeline.memory_limit: the message has the smallest limit that works), memory.exhausted,
// those of plan() and Communicator; with a decision file also file.read, file.write, record.json,
// record.missing, record.type.
std::string choose_plan(Context& context, nn::Task& task, data::BatchSource& source,
                        TrainerOptions& options, data::BatchSource* held_out = nullptr);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/plan.ipp>
#endif
