#pragma once
// Schedules of a pipeline as data. Each stage has a list of actions (F: forward, B: backward, or
// its two halves I and W) on micro-batches, which it runs in that order; each action waits for its
// inputs. Generators make the lists, validate() refuses lists that cannot work or whose sums would
// have another order, and simulate() computes their time.
//
// Sources: GPipe (arXiv 1811.06965) for `simple`, PipeDream with a flush (arXiv 2006.09503) for
// `interleaved`, Zero Bubble (arXiv 2401.10241) for ZB-H1.

#include <soma/base/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

enum class PipelineOp : std::uint8_t {
  forward,
  backward,
  input_gradient,   // the half of a backward that the stage before waits for
  weight_gradient,  // the other half, which nobody waits for
};

struct PipelineAction {
  PipelineOp op = PipelineOp::forward;
  std::size_t microbatch = 0;
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

struct PipelineSchedule {
  std::size_t microbatches = 0;
  std::vector<std::vector<PipelineAction>> stages{};

  std::size_t partitions() const;
};

namespace detail {

void check_pipeline_size(std::size_t partitions, std::size_t microbatches);

inline bool is_backward(PipelineOp op) {
  return op == PipelineOp::backward || op == PipelineOp::input_gradient;
}

}  // namespace detail

// All forwards, then all backwards in ascending order. Error parallel.argument, as for all three
// generators.
PipelineSchedule simple_schedule(std::size_t partitions, std::size_t microbatches);

// The number of forwards that stage `stage` of an interleaved schedule runs before its first
// backward. It drops by at least one from each stage to the next: with equal numbers, neighbours
// would wait for each other in every round.
std::size_t pipeline_warm_up(std::size_t partitions, std::size_t microbatches, std::size_t extra,
                             std::size_t stage);

// Alternating forwards and backwards (1F1B). `extra` more micro-batches are started ahead, so that
// a stage has work during a transfer.
PipelineSchedule interleaved_schedule(std::size_t partitions, std::size_t microbatches,
                                      std::size_t extra = 0);

// ZB-H1: as interleaved, with backwards in two halves; stage s delays its weight gradients by s
// micro-batches, so that they fill waiting time. For validator and simulator only: it is never
// executed, because two halves cost more than one backward on a CPU.
PipelineSchedule zero_bubble_schedule(std::size_t partitions, std::size_t microbatches);

// "F0": an action; a schedule is a line for each stage, "F0 F1 B0 B1".
std::string to_text(const PipelineAction& action);
std::string to_text(const PipelineSchedule& schedule);

// Times of one stage, in any unit.
struct StageTimes {
  double forward = 1, backward = 2;
  double input_gradient = 1, weight_gradient = 1;

  double of(PipelineOp op) const;
};

struct PipelineTimes {
  std::vector<StageTimes> stages{};  // one for each; or one for all
  double latency = 0;                // between two stages; the sender does not wait for it
  // The time of a message from stage i to the next, or back, if cuts differ; empty: `latency`.
  std::vector<double> links{};

  const StageTimes& of(std::size_t stage) const;
  // Between the stages `cut` and cut + 1.
  double link(std::size_t cut) const;
};

struct Simulation {
  double makespan = 0;
  std::vector<double> busy{};            // the busy time of each stage
  std::vector<std::size_t> in_flight{};  // most micro-batches that a stage holds, F to B or W
  // If the stages wait for each other: the first action that never runs. Empty: all ran.
  std::string stuck{};
};

// Runs the lists in simulated time. The schedule may be one that validate() refuses, but its
// micro-batches must be below schedule.microbatches. Error parallel.argument: times for another
// number of stages.
Simulation simulate(const PipelineSchedule& schedule, const PipelineTimes& times);

// Error parallel.argument names the first broken rule: every micro-batch has one forward and one
// backward (or both halves) on every stage, in that order; gradients are summed in ascending order;
// and the stages do not wait for each other forever.
void validate(const PipelineSchedule& schedule);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/schedule.ipp>
#endif
