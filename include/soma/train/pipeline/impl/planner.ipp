#pragma once
// The functions of planner.hpp.

#include <soma/train/pipeline/planner.hpp>

#include <soma/data/content_hash.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/record_json.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/nn/task.hpp>
#include <soma/parallel/plan.hpp>
#include <soma/parallel/schedule.hpp>
#include <soma/system/files.hpp>
#include <soma/train/options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE std::string fingerprint_of(const nn::Pieces& pieces, const Parameters& parameters) {
  soma::data::ContentHash hash;
  for (const nn::Piece& piece : pieces) {
    hash.add_text(piece.name);
    hash.add(piece.parameters.size());
  }
  for (const Parameter& parameter : parameters) {
    hash.add_text(parameter.name);
    hash.add_text(to_string(parameter.value().shape()));
  }
  std::string text(16, '0');
  std::uint64_t value = hash.value();
  for (std::size_t i = text.size(); i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

SOMA_INLINE std::uint64_t handle_bytes(Context& context) {
  const Tensor value = Tensor::zeros(context, Shape{1}, DType::fp32);
  const std::size_t before = context.heap().bytes_in_use();
  const Var handle = Var::constant(context, value);
  return context.heap().bytes_in_use() - before;
}

SOMA_INLINE void set_value(Record& record, const std::string& name, const RecordValue& value) {
  switch (value.kind) {
    case RecordValue::Kind::boolean:
      return record.set(name, value.boolean);
    case RecordValue::Kind::count:
      return record.set(name, value.count);
    case RecordValue::Kind::number:
      return record.set(name, value.number);
    case RecordValue::Kind::integer:
      return record.set(name, value.integer);
    case RecordValue::Kind::text:
      return record.set(name, value.text);
  }
}

SOMA_INLINE bool shares_variable(const nn::Piece& a, const nn::Piece& b) {
  for (const Parameter& x : a.parameters)
    for (const Parameter& y : b.parameters)
      if (x.var.is(y.var)) return true;
  return false;
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE PipelinePlan known_plan(const nn::Pieces& pieces, const Parameters& parameters,
                                    const PipelineOptions& options) {
  PipelinePlan plan{.fingerprint = detail::fingerprint_of(pieces, parameters),
                    .partitions = options.partitions,
                    .microbatches = options.microbatches};
  std::vector<std::string> names, wanted;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    PieceCost cost{.name = pieces[i].name};
    for (const Parameter& parameter : pieces[i].parameters) {
      names.push_back(parameter.name);
      cost.parameter_bytes += parameter.value().bytes();
    }
    plan.pieces.push_back(std::move(cost));
    for (std::size_t j = 0; j < i; ++j)
      if (detail::shares_variable(pieces[j], pieces[i]))
        for (std::size_t k = j + 1; k <= i; ++k) plan.pieces[k].joined = true;
  }
  if (pieces.empty()) {
    PieceCost whole{.name = "task"};
    for (const Parameter& parameter : parameters)
      whole.parameter_bytes += parameter.value().bytes();
    plan.pieces.push_back(std::move(whole));
    return plan;
  }
  for (const Parameter& parameter : parameters) wanted.push_back(parameter.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());  // for shared ones
  std::sort(wanted.begin(), wanted.end());
  if (names != wanted)
    fail(error_id::train_options, "PipelineTrainer", "parameters of the task's pieces",
         std::to_string(names.size()) + " names", "the task's " + std::to_string(wanted.size()));
  return plan;
}

SOMA_INLINE PipelineSchedule schedule_of(const PipelineOptions& options, std::size_t microbatches) {
  if (options.schedule == Pipeline::simple)
    return simple_schedule(options.partitions, microbatches);
  return interleaved_schedule(options.partitions, microbatches,
                              options.optimize == Optimize::speed ? 2 : 0);
}

SOMA_INLINE std::size_t in_flight(const PipelineOptions& options, std::size_t microbatches,
                                  std::size_t stage) {
  if (options.schedule == Pipeline::simple) return microbatches;
  const std::size_t behind = options.partitions - 1 - stage;
  return (std::min)(microbatches,
                    behind + 1 +
                        (options.optimize == Optimize::speed ? (std::min)(behind, std::size_t{2})
                                                             : std::size_t{0}));
}

SOMA_INLINE std::vector<ParameterMemory> parameters_of(std::size_t piece, const nn::Pieces& pieces,
                                                       const TrainerOptions& options) {
  const auto names = [](const Parameters& list, const Parameter& wanted) {
    return std::any_of(list.begin(), list.end(),
                       [&](const Parameter& known) { return known.name == wanted.name; });
  };
  std::vector<ParameterMemory> result;
  for (const Parameters* list : {&pieces[piece].parameters, &pieces[piece].shared})
    for (const Parameter& parameter : *list) {
      ParameterMemory memory = memory_of(parameter, options);
      memory.last = piece;
      // A parameter of several pieces that stay together counts in the first.
      bool known = false;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const bool shares = names(pieces[i].shared, parameter);
        const bool has = names(pieces[i].parameters, parameter);
        if (i < piece && (shares || has)) memory.before = i;
        if (i > piece && shares) memory.last = i;
        memory.several = memory.several || shares;
        known = known || (i < piece && has && list == &pieces[piece].parameters);
      }
      if (!known) result.push_back(memory);
    }
  return result;
}

SOMA_INLINE ParameterMemory memory_of(const Parameter& parameter, const TrainerOptions& options) {
  const Tensor value = parameter.value();
  ParameterMemory memory{.value = value.elements() * size_of(value.dtype()),
                         .shape = value.shape(),
                         .trained = !parameter.var.frozen()};
  if (options.optimizer != nullptr)
    memory.moments = options.optimizer->state_bytes(parameter.name);
  else if (!parameter.var.frozen())
    memory.moments = 2 * value.elements() * size_of(find_dtype(options.precision.moments.format));
  return memory;
}

SOMA_INLINE Record decision_basis(const TrainerOptions& options, const nn::Task& task,
                                  const BatchSizes& batches, std::size_t replicas,
                                  std::uint64_t moments) {
  Record basis("decision");
  const PipelineOptions& pipeline = options.pipeline;
  basis.set("optimize", pipeline.optimize == Optimize::speed ? "speed" : "memory");
  basis.set("schedule", pipeline.schedule == Pipeline::simple ? "simple" : "interleaved");
  basis.set("microbatches", std::uint64_t{pipeline.microbatches});
  basis.set("replicas", std::uint64_t{replicas});
  basis.set("memory_limit", pipeline.memory_limit);
  basis.set("batch_rows", std::uint64_t{batches.most_rows.empty() ? 0 : batches.most_rows.back()});
  basis.set("lengths", batches.hash());
  basis.set("accumulate", std::uint64_t{options.accumulate});
  basis.set("recompute", task.recomputes());
  basis.set("precision", to_string(options.precision));
  basis.set("moment_bytes", moments);
  basis.set("shard_optimizer", options.shard_optimizer);
  basis.set("evaluates_between", options.evaluate_every != 0);
  basis.set("average", options.average.has_value());
  if (options.step_early) basis.set("step_early", true);
  basis.set("keeps_best", options.keep_best && options.checkpoints == nullptr);
  basis.set("network", pipeline.network);
  return basis;
}

SOMA_INLINE std::string difference_of(const Record& decision, const Record& basis) {
  std::string text;
  for (const auto& [name, value] : basis.entries()) {
    const RecordValue* found = decision.find("for." + name);
    const std::string given = found == nullptr ? std::string("none") : to_text(*found);
    if (given == to_text(value)) continue;
    text.append(text.empty() ? "" : "; ").append(name).append(" ").append(given);
    text.append(", now ").append(to_text(value));
  }
  return text;
}

SOMA_INLINE std::optional<Record> read_decision(const PipelineOptions& options,
                                                PipelinePlan& plan) {
  if (!options.cuts.empty()) return std::nullopt;
  std::string text = options.decided, source = "decision";
  if (text.empty()) {
    if (options.decision.empty() ||
        system::info_of(options.decision).kind == system::FileKind::none)
      return std::nullopt;
    const auto file = MappedFile::open("PipelineTrainer", options.decision);
    text.assign(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
    source = "decision file " + soma::quoted(options.decision);
  }
  Record record = record_from_json(text, source);
  const std::size_t microbatches = plan.microbatches;
  plan = plan_from_record(record, plan);
  plan.microbatches = microbatches;
  return record;
}

SOMA_INLINE Record decision_record(const PipelinePlan& plan, const Record& basis,
                                   const std::vector<MemoryEstimate>& estimates) {
  Record record = to_record(plan);
  for (const auto& [name, value] : basis.entries()) detail::set_value(record, "for." + name, value);
  for (std::size_t i = 0; i < estimates.size(); ++i)
    add_to_record(record, "stage." + std::to_string(i) + ".", estimates[i]);
  return record;
}

SOMA_INLINE void write_decision(const PipelineOptions& options, const Record& decision) {
  if (options.decision.empty()) return;
  AtomicFile file("PipelineTrainer", options.decision);
  file.write(to_json(decision) + "\n");
  file.commit();
}

}  // namespace SOMA_NAMESPACE::train
