#pragma once
// The known costs of a task's pieces before a run, the schedule of its steps, the decision file.

#include <soma/data/content_hash.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/record_json.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/nn/task.hpp>
#include <soma/parallel/plan.hpp>
#include <soma/parallel/schedule.hpp>
#include <soma/train/memory/rank_memory.hpp>
#include <soma/train/options.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

namespace detail {

// A hash of the names and shapes of all pieces and parameters, in hexadecimal digits.
std::string fingerprint_of(const nn::Pieces& pieces, const Parameters& parameters);

// The heap bytes of the handle of an operator's result. A stage holds the handle of its last
// result, the tape none.
std::uint64_t handle_bytes(Context& context);

void set_value(Record& record, const std::string& name, const RecordValue& value);

bool shares_variable(const nn::Piece& a, const nn::Piece& b);

}  // namespace detail

// The part of a plan that needs no measurement: names, parameters, and the pieces that stay
// together. Error train.options: the pieces do not have the task's parameters.
PipelinePlan known_plan(const nn::Pieces& pieces, const Parameters& parameters,
                        const PipelineOptions& options);

// The schedule of a step, over all its micro-batches, even if the step has several batches.
PipelineSchedule schedule_of(const PipelineOptions& options, std::size_t microbatches);
std::size_t in_flight(const PipelineOptions& options, std::size_t microbatches, std::size_t stage);

// The bytes of a parameter, and of a piece's parameters: those that no earlier piece has, and those
// that it shares with earlier ones.
ParameterMemory memory_of(const Parameter& parameter, const TrainerOptions& options);
std::vector<ParameterMemory> parameters_of(std::size_t piece, const nn::Pieces& pieces,
                                           const TrainerOptions& options);

// Everything beside the model that a decision depends on. `moments`: bytes of all of them.
Record decision_basis(const TrainerOptions& options, const nn::Task& task,
                      const BatchSizes& batches, std::size_t replicas, std::uint64_t moments);
// The dependencies of a decision that are different now, by name; empty: none.
std::string difference_of(const Record& decision, const Record& basis);

// A plan, what it depends on, and the estimate of each stage.
Record decision_record(const PipelinePlan& plan, const Record& basis,
                       const std::vector<MemoryEstimate>& estimates);
// The decision of the options or of their file; nothing if there is none. Errors parallel.plan,
// file.read, record.json and those of Record.
std::optional<Record> read_decision(const PipelineOptions& options, PipelinePlan& plan);
// Writes it into the file of the options, if they name one. Error file.write.
void write_decision(const PipelineOptions& options, const Record& decision);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/planner.ipp>
#endif
