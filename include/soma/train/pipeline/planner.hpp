#pragma once
// The planner: it collects the known costs of a task's pieces, profiles the pieces on one
// micro-batch, and decides the cuts or reads them from the decision file.

#include <soma/data/content_hash.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/record_json.hpp>
#include <soma/nn/later.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/nn/task.hpp>
#include <soma/parallel/plan.hpp>
#include <soma/parallel/schedule.hpp>
#include <soma/system/clock.hpp>
#include <soma/train/options.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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

bool shares_variable(const nn::Piece& a, const nn::Piece& b);

}  // namespace detail

// The part of a plan that needs no measurement: names, parameters, and the pieces that stay
// together. Error train.options: the pieces do not have the task's parameters.
PipelinePlan known_plan(const nn::Pieces& pieces, const Parameters& parameters,
                        const PipelineOptions& options);

// The schedule of a step, over all its micro-batches, even if the step has several batches.
PipelineSchedule schedule_of(const PipelineOptions& options, std::size_t microbatches);
std::size_t in_flight(const PipelineOptions& options, std::size_t microbatches, std::size_t stage);

// Measures each piece on one micro-batch: the time of forward and backward (medians of five), and
// the bytes that it keeps between the two. The run's state does not change: the profiler has
// product formats of its own, and restores the state that pieces keep of batches. Pieces with
// postponed parameters get them while they are measured.
class PieceProfiler {
 public:
  PieceProfiler(Context& context, nn::Task& task, const nn::Pieces& pieces,
                const TrainerOptions& options);

  void measure(const data::Batch& part, std::vector<PieceCost>& costs);

 private:
  static constexpr std::size_t repetitions = 5;
  // Keeps no gradient. Error train.options: a piece has used another variable than its parameters.
  struct Check final : GradientReceiver {
    SOMA_INLINE void receive(const Var& parameter, Gradient) override;
    const PieceProfiler* profiler = nullptr;
    const nn::Piece* piece = nullptr;  // nullptr: the whole task
  };
  static double median(std::array<double, repetitions>& times);

  Context& context_;
  nn::Task& task_;
  const nn::Pieces& pieces_;
  const nn::Later* later_;
  PrecisionState precision_;
  Check check_{};
};

// The largest number of gradients of one parameter at a time: sums of micro-batches that wait for
// others; the last becomes the gradient. log2 of the micro-batches, at least one.
std::uint64_t waiting_sums(std::size_t microbatches);

// The bytes that a piece needs on its rank beside micro-batches: weights, gradients and two
// moments.
std::uint64_t fixed_bytes(const PieceCost& piece, std::size_t microbatches);

// Cuts by name, or by costs. Error parallel.plan.
void cut_pieces(PipelinePlan& plan, const PipelineOptions& options);

// Reads the decision from its file; returns false if there is no file. Errors parallel.plan,
// file.read, record.json and those of Record.
bool read_decision(const PipelineOptions& options, Context& context, PipelinePlan& plan);
void write_decision(const PipelineOptions& options, const PipelinePlan& plan);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/planner.ipp>
#endif
