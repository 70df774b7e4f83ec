#pragma once
// The functions of plan.hpp.

#include <soma/train/plan.hpp>

#include <soma/base/fixed.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/record_json.hpp>
#include <soma/ops/fields.hpp>
#include <soma/parallel/agreement.hpp>
#include <soma/parallel/communicator.hpp>
#include <soma/parallel/group.hpp>
#include <soma/system/files.hpp>
#include <soma/train/trainer_base.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train::detail {

// Why batches cannot be cut into micro-batches; empty: they can.
SOMA_INLINE std::string whole_batches(const nn::Pieces& pieces, const Precision& precision) {
  for (const nn::Piece& piece : pieces)
    if (piece.mixes_sequences) return soma::quoted(piece.name) + " mixes the sequences of a batch";
  for (const Quantizer* read : {&precision.gemm_activations, &precision.gemm_gradients})
    if (read->format != formats::fp32 && read->scaling.reads_whole_tensor())
      return "scales of " + soma::quoted(precision.name) + " are those of whole batches";
  return {};
}

// Its rows.
SOMA_INLINE std::size_t largest_batch(Context& context, data::BatchSource& source) {
  constexpr std::uint64_t most = 4096;
  const std::uint64_t batches = source.batches(0);
  const BatchSizes sizes = read_batch_sizes(
      context, source, static_cast<std::size_t>(batches == 0 ? most : (std::min)(batches, most)));
  return sizes.most_rows.empty() ? 0 : sizes.most_rows.back();
}

SOMA_INLINE std::string mebibytes(std::uint64_t bytes) {
  return soma::fixed(static_cast<double>(bytes) / (1 << 20), 1) + " MiB";
}

// All layouts of so many ranks.
SOMA_INLINE std::vector<PlanLayout> layouts_of(std::size_t ranks, std::size_t shards,
                                               std::size_t most_microbatches, bool can_recompute,
                                               bool recomputes) {
  std::vector<PlanLayout> all;
  for (std::size_t p = 1; p <= ranks; ++p) {
    const std::size_t replicas = ranks / p;
    if (ranks % p != 0 || (replicas & (replicas - 1)) != 0) continue;
    for (std::size_t m = 1; m <= most_microbatches && (m == 1 || m * replicas <= shards); m *= 2)
      for (const Pipeline schedule : {Pipeline::interleaved, Pipeline::simple})
        for (const Optimize aim : {Optimize::memory, Optimize::speed})
          for (const bool recompute : {recomputes, !recomputes})
            for (const bool shard : {false, true}) {
              // Without stages or micro-batches these make no difference.
              if (p == 1 && (schedule == Pipeline::simple || aim == Optimize::speed)) continue;
              if (p > 1 && m == 1 && schedule == Pipeline::simple) continue;
              if (recompute != recomputes && !can_recompute) continue;
              if (shard && replicas == 1) continue;
              all.push_back({p, replicas, m, schedule, aim, recompute, shard});
            }
  }
  return all;
}

SOMA_INLINE PlanRow row_of(const PlanCosts& costs, const PlanLayout& layout, std::uint64_t limit,
                           const std::string& whole) {
  PlanRow row{.layout = layout, .threads = costs.setting().threads};
  std::size_t apart = 0;
  for (const PieceCost& piece : costs.pieces()) apart += piece.joined ? 0 : 1;
  if (layout.partitions > apart) {
    row.reason = "only " + std::to_string(apart) + " pieces can be apart";
    return row;
  }
  if (layout.microbatches * layout.replicas > costs.batches().shards) {
    row.reason = "a batch has " + std::to_string(costs.batches().shards) + " shards";
    return row;
  }
  if (costs.setting().early && !(layout.plain() && layout.replicas == 1)) {
    row.reason = "early steps are those of one process";
    return row;
  }
  if (layout.microbatches > 1 && !whole.empty()) {
    row.reason = whole;
    return row;
  }
  row.cuts = costs.best_cuts(layout, limit);
  row.pieces = costs.costs(layout);
  row.stages = costs.stages(layout, row.cuts);
  for (const MemoryEstimate& rank : row.stages) row.bytes = (std::max)(row.bytes, rank.process());
  row.seconds = costs.seconds(layout, row.cuts);
  row.sent = costs.sent(layout, row.cuts);
  if (limit != 0 && row.bytes > limit) row.reason = "above the limit";
  return row;
}

SOMA_INLINE std::string padded(std::string text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

SOMA_INLINE std::string describe_layout(const PlanLayout& layout) {
  if (layout.plain() && layout.replicas == 1)
    return std::string("one process") + (layout.recompute ? ", recomputation" : "");
  std::string text = std::to_string(layout.partitions) + " x " + std::to_string(layout.replicas) +
                     " ranks, " + std::to_string(layout.microbatches) + " micro-batches";
  if (layout.partitions > 1) {
    text += layout.schedule == Pipeline::simple ? ", simple" : ", interleaved";
    text += layout.optimize == Optimize::speed ? ", cut for speed" : ", cut for memory";
  }
  if (layout.recompute) text += ", recomputation";
  if (layout.shard_optimizer) text += ", shared optimizer";
  return text;
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void fields(FieldVisitor& visitor, PlanOptions& options) {
  visitor.option("ranks", options.ranks, NumberRange::at_least(1));
  visitor.option("memory_limit", options.memory_limit);
  visitor.option("most_microbatches", options.most_microbatches, NumberRange::at_least(1));
  visitor.option("network", options.network, NumberRange::at_least(0));
}

SOMA_INLINE std::string PlanTable::cuts_of(const PlanRow& row) const {
  std::string text;
  for (const std::size_t cut : row.cuts) text.append(text.empty() ? "" : " ").append(pieces[cut]);
  return text;
}

SOMA_INLINE void PlanTable::mark() {
  best = smallest = between = none;
  const auto product = [](const PlanRow& row) {
    return row.seconds * static_cast<double>(row.bytes);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PlanRow& row = rows[i];
    const bool possible = row.bytes != 0;
    if (possible && (smallest == none || row.bytes < rows[smallest].bytes)) smallest = i;
    if (row.reason.empty() && (best == none || row.seconds < rows[best].seconds)) best = i;
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].reason.empty() && i != best && i != smallest &&
        (between == none || product(rows[i]) < product(rows[between])))
      between = i;
}

SOMA_INLINE PlanTable plan(Context& context, nn::Task& task, data::BatchSource& source,
                           const TrainerOptions& options, const PlanOptions& wanted) {
  check_ranges("plan", wanted);
  detail::give_precision(context, task.parameters(), options.precision);
  const std::int64_t begin = monotonic_nanoseconds();
  const nn::Pieces pieces = task.pieces();
  const PipelinePlan known = known_plan(pieces, task.parameters(), options.pipeline);
  const BatchSizes sizes = read_batch_sizes(context, source, batches_to_read(options, source));
  const bool recomputes = task.recomputes();
  const bool can_recompute = task.set_recompute(recomputes);
  const std::string whole = detail::whole_batches(pieces, options.precision);
  const std::vector<PlanLayout> layouts =
      detail::layouts_of(wanted.ranks, sizes.shards, whole.empty() ? wanted.most_microbatches : 1,
                         can_recompute, recomputes);
  CostRequest request{.recompute_too = can_recompute, .network = wanted.network};
  if (wanted.held_out != nullptr)
    request.evaluated = detail::largest_batch(context, *wanted.held_out);
  for (const PlanLayout& layout : layouts) {
    const std::size_t parts = layout.microbatches * layout.replicas;
    if (parts > sizes.shards) continue;
    if (std::find(request.timed.begin(), request.timed.end(), parts) == request.timed.end())
      request.timed.push_back(parts);
    for (const std::size_t smaller : parts_up_to(parts)) request.others.push_back(smaller);
  }
  const PlanCosts costs =
      measure_costs(context, task, pieces, options, known.pieces, sizes, source, request);
  const std::int64_t middle = monotonic_nanoseconds();
  PlanTable table{.rows = wanted.others, .memory_limit = wanted.memory_limit};
  for (const PieceCost& piece : known.pieces) table.pieces.push_back(piece.name);
  for (const PlanLayout& layout : layouts)
    table.rows.push_back(detail::row_of(costs, layout, wanted.memory_limit, whole));
  for (PlanRow& row : table.rows)
    if (row.reason.empty() && table.memory_limit != 0 && row.bytes > table.memory_limit)
      row.reason = "above the limit";
  table.mark();
  table.lengths = sizes;
  const std::int64_t end = monotonic_nanoseconds();
  table.profile_seconds = static_cast<double>(middle - begin) * 1e-9;
  table.table_seconds = static_cast<double>(end - middle) * 1e-9;
  return table;
}

SOMA_INLINE std::string to_string(const PlanTable& table) {
  using detail::padded;
  std::string text = padded("step", 11) + padded("largest rank", 15) + padded("sent a step", 15) +
                     padded("threads", 9) + "  layout\n";
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const PlanRow& row = table.rows[i];
    const char* mark = i == table.best       ? "*"
                       : i == table.smallest ? "-"
                       : i == table.between  ? "+"
                                             : " ";
    if (row.bytes == 0) {
      text += " " + padded("-", 10) + padded("-", 15) + padded("-", 15) + padded("-", 9);
    } else {
      text += mark + padded(soma::fixed(1e3 * row.seconds, 1) + " ms", 10) +
              padded(detail::mebibytes(row.bytes), 15) + padded(detail::mebibytes(row.sent), 15) +
              padded(std::to_string(row.threads), 9);
    }
    text += "  " + detail::describe_layout(row.layout);
    if (!row.cuts.empty()) text += " (" + table.cuts_of(row) + ")";
    if (!row.reason.empty()) text += ": " + row.reason;
    text += "\n";
  }
  const auto say = [&](std::string_view mark, std::string_view what, std::size_t row) {
    text.append(mark).append(" ").append(what).append(": ");
    if (row == PlanTable::none)
      text.append("none\n");
    else
      text.append(detail::describe_layout(table.rows[row].layout)).append("\n");
  };
  say("*", table.memory_limit == 0 ? "fastest" : "fastest within the limit", table.best);
  say("-", "smallest", table.smallest);
  say("+", "between", table.between);
  if (table.best == PlanTable::none && table.smallest != PlanTable::none)
    text += "no row is within " + detail::mebibytes(table.memory_limit) +
            "; the smallest limit is " +
            std::to_string(limit_for(table.rows[table.smallest].bytes)) + " bytes\n";
  text +=
      "On one machine one process with all its threads is often fastest: ranks share the cores, "
      "and lower the memory of each process.\n";
  text += "Lengths of " + std::to_string(table.lengths.batches) + " batches, profile " +
          soma::fixed(table.profile_seconds, 2) + " s, table " +
          soma::fixed(1e3 * table.table_seconds, 1) + " ms\n";
  return text;
}

}  // namespace SOMA_NAMESPACE::train

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE void set_layout(TrainerOptions& options, nn::Task& task, const PlanLayout& layout) {
  options.pipeline.partitions = layout.partitions;
  options.pipeline.microbatches = layout.microbatches;
  options.pipeline.schedule = layout.schedule;
  options.pipeline.optimize = layout.optimize;
  options.shard_optimizer = layout.shard_optimizer;
  task.set_recompute(layout.recompute);
}

SOMA_INLINE void add_to_record(Record& record, const PlanLayout& layout) {
  record.set("auto.ranks", std::uint64_t{layout.ranks()});
  record.set("auto.partitions", std::uint64_t{layout.partitions});
  record.set("auto.microbatches", std::uint64_t{layout.microbatches});
  record.set("auto.simple", layout.schedule == Pipeline::simple);
  record.set("auto.speed", layout.optimize == Optimize::speed);
  record.set("auto.recompute", layout.recompute);
  record.set("auto.shard_optimizer", layout.shard_optimizer);
}

// Errors record.missing, record.type, parallel.plan (numbers of ranks that do not fit together).
SOMA_INLINE PlanLayout layout_from_record(const Record& record) {
  PlanLayout layout;
  const std::uint64_t ranks = record.count("auto.ranks");
  const std::uint64_t partitions = record.count("auto.partitions");
  if (partitions == 0 || ranks == 0 || ranks % partitions != 0)
    fail(error_id::parallel_plan, record.purpose(), "auto.partitions", std::to_string(partitions),
         "a divisor of its " + std::to_string(ranks) + " ranks");
  layout.partitions = static_cast<std::size_t>(partitions);
  layout.replicas = static_cast<std::size_t>(ranks / partitions);
  layout.microbatches = static_cast<std::size_t>(record.count("auto.microbatches"));
  layout.schedule = record.boolean("auto.simple") ? Pipeline::simple : Pipeline::interleaved;
  layout.optimize = record.boolean("auto.speed") ? Optimize::speed : Optimize::memory;
  layout.recompute = record.boolean("auto.recompute");
  layout.shard_optimizer = record.boolean("auto.shard_optimizer");
  return layout;
}

// The run's dependencies with that layout.
SOMA_INLINE Record basis_with(TrainerOptions options, nn::Task& task, const BatchSizes& sizes,
                              const PlanLayout& layout) {
  const bool before = task.recomputes();
  set_layout(options, task, layout);
  std::uint64_t moments = 0;
  for (const Parameter& parameter : task.parameters())
    moments += memory_of(parameter, options).moments;
  Record basis = decision_basis(options, task, sizes, layout.replicas, moments);
  task.set_recompute(before);
  return basis;
}

// A layout, and the estimate of a rank's memory if the rank is a whole model.
struct ChosenLayout {
  PlanLayout layout{};
  MemoryEstimate whole{};
};

// The layout of the decision file, if all that it depends on is as it was.
SOMA_INLINE std::optional<ChosenLayout> kept_layout(Context& context, nn::Task& task,
                                                    data::BatchSource& source,
                                                    const TrainerOptions& options,
                                                    std::size_t ranks) {
  const PipelineOptions& pipeline = options.pipeline;
  if (pipeline.decision.empty() ||
      system::info_of(pipeline.decision).kind == system::FileKind::none)
    return std::nullopt;
  const auto file = MappedFile::open("choose_plan", pipeline.decision);
  const std::string text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const Record record = record_from_json(text, "decision file " + soma::quoted(pipeline.decision));
  std::string difference;
  std::optional<ChosenLayout> chosen;
  if (!record.contains("auto.ranks")) {
    difference = "given partitions";
  } else {
    chosen.emplace(ChosenLayout{layout_from_record(record)});
    const PlanLayout& layout = chosen->layout;
    PipelineOptions options_of_row = pipeline;
    options_of_row.partitions = layout.partitions;
    const std::string fingerprint =
        known_plan(task.pieces(), task.parameters(), options_of_row).fingerprint;
    const BatchSizes sizes = read_batch_sizes(context, source, batches_to_read(options, source));
    difference = difference_of(record, basis_with(options, task, sizes, layout));
    if (layout.ranks() != ranks)
      difference = std::to_string(layout.ranks()) + " ranks, now " + std::to_string(ranks);
    else if (record.text("fingerprint") != fingerprint)
      difference = "another model";
    else if (difference.empty())
      chosen->whole = estimate_from_record(record, "stage.0.");
  }
  if (difference.empty()) return chosen;
  context.log(LogLevel::warning, "choose_plan: " + record.purpose() + " was made for " +
                                     difference + ": it is made anew");
  return std::nullopt;
}

// Plans, and keeps the best row in the options. Error parallel.plan.
SOMA_INLINE ChosenLayout make_layout(Context& context, nn::Task& task, data::BatchSource& source,
                                     TrainerOptions& options, const PlanOptions& wanted) {
  PipelineOptions& pipeline = options.pipeline;
  const PlanTable table = plan(context, task, source, options, wanted);
  if (table.best == PlanTable::none)
    fail(
        error_id::parallel_plan, "choose_plan", "memory_limit",
        std::to_string(pipeline.memory_limit) + " bytes",
        table.smallest == PlanTable::none
            ? "a number of ranks that the model and its batches can be shared by"
            : "at least " + std::to_string(limit_for(table.rows[table.smallest].bytes)) + " bytes");
  const PlanRow& row = table.rows[table.best];
  PipelineOptions chosen = pipeline;
  chosen.partitions = row.layout.partitions;
  chosen.microbatches = row.layout.microbatches;
  PipelinePlan kept = known_plan(task.pieces(), task.parameters(), chosen);
  kept.cuts = row.cuts;
  kept.pieces = row.pieces;
  Record decision =
      decision_record(kept, basis_with(options, task, table.lengths, row.layout), row.stages);
  add_to_record(decision, row.layout);
  write_decision(chosen, decision);
  pipeline.decided = to_json(decision);
  return {row.layout, row.stages.front()};
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE std::string choose_plan(Context& context, nn::Task& task, data::BatchSource& source,
                                    TrainerOptions& options, data::BatchSource* held_out) {
  AloneCommunicator alone;
  Communicator& world = options.communicator == nullptr ? alone : *options.communicator;
  Record record("layout");
  if (world.rank() == 0) {
    const PlanOptions wanted{.ranks = static_cast<std::size_t>(world.size()),
                             .memory_limit = options.pipeline.memory_limit,
                             .network = options.pipeline.network,
                             .held_out = held_out};
    std::optional<detail::ChosenLayout> chosen =
        detail::kept_layout(context, task, source, options, wanted.ranks);
    if (!chosen) chosen = detail::make_layout(context, task, source, options, wanted);
    detail::add_to_record(record, chosen->layout);
    add_to_record(record, "whole.", chosen->whole);
  }
  const std::string text =
      soma::detail::broadcast_text(world, world.rank() == 0 ? to_json(record) : std::string(), 0);
  record = record_from_json(text, "layout of rank 0");
  const PlanLayout layout = detail::layout_from_record(record);
  detail::set_layout(options, task, layout);
  // A pipeline's trainer reserves the memory of its stage itself.
  if (layout.plain() && options.pipeline.memory_limit != 0)
    reserve(context, estimate_from_record(record, "whole."));
  return detail::describe_layout(layout);
}

}  // namespace SOMA_NAMESPACE::train
