#pragma once
// The report of the stages: a line for each, with predicted and measured numbers.

#include <soma/train/pipeline/gradients.hpp>

#include <soma/base/fixed.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::train {

// The predicted bytes of this stage's micro-batches in flight, from the profile: the bytes that its
// pieces save, and the bytes that arrive from the stage before.
SOMA_INLINE double PipelineGradients::predicted_activations() const {
  const std::size_t first = plan_.first_piece(groups_.stage());
  std::uint64_t bytes = first == 0 ? 0 : plan_.pieces[first - 1].boundary_bytes;
  for (std::size_t i = first; i < plan_.end_piece(groups_.stage()); ++i)
    bytes += plan_.pieces[i].saved_bytes;
  // A piece that was measured held the handle of its result; a stage holds that of its last one.
  const std::uint64_t handle = detail::handle_bytes(context_);
  const std::size_t all = plan_.pieces.size();
  for (std::size_t i = first; i < plan_.end_piece(groups_.stage()) && i + 1 < all; ++i)
    if (plan_.pieces[i].saved_bytes >= handle) bytes -= handle;
  if (bytes != 0 && !groups_.last_stage()) bytes += handle;
  return static_cast<double>(bytes) *
         static_cast<double>(
             in_flight(options_.pipeline, options_.pipeline.microbatches, groups_.stage()));
}

SOMA_INLINE std::vector<StageReport> PipelineGradients::stage_reports() const {
  StageReport own;
  for (const Parameter& parameter : own_) {
    own.parameters += static_cast<double>(parameter.value().elements());
    own.weights += static_cast<double>(parameter.value().bytes());
    own.moments += static_cast<double>(memory_of(parameter, options_).moments);
  }
  for (const Parameter& copy : shared_.copies())
    own.weights += static_cast<double>(copy.value().bytes());
  if (options_.shard_optimizer) own.moments /= static_cast<double>(groups_.replica_count());
  own.predicted_activations = predicted_activations();
  own.measured_activations = static_cast<double>(most_held_);
  own.gradients = static_cast<double>(most_gradients_);
  own.heap = static_cast<double>(context_.heap().peak_bytes());
  std::vector<StageReport> all(groups_.partitions());
  all[groups_.stage()] = own;
  for (std::size_t stage = 0; stage < all.size(); ++stage)
    broadcast(groups_.pipeline(), std::as_writable_bytes(std::span(&all[stage], 1)),
              static_cast<int>(stage));
  return all;
}

// The predicted seconds of a step's forward and backward, from the profile of the pieces; 0: no
// profile.
SOMA_INLINE double PipelineGradients::predicted_seconds() const {
  PipelineTimes times;
  double all = 0;
  for (std::size_t stage = 0; stage < plan_.partitions; ++stage) {
    StageTimes& own = times.stages.emplace_back();
    own.forward = own.backward = 0;
    for (std::size_t i = plan_.first_piece(stage); i < plan_.end_piece(stage); ++i) {
      own.forward += plan_.pieces[i].forward_seconds;
      own.backward += plan_.pieces[i].backward_seconds;
    }
    all += own.forward + own.backward;
  }
  if (all == 0) return 0;
  return simulate(schedule_of(options_.pipeline, options_.pipeline.microbatches), times).makespan;
}

// The median of the last steps in seconds; 0: no step yet.
SOMA_INLINE double PipelineGradients::measured_seconds() const {
  if (passes_.empty()) return 0;
  std::vector<double> sorted = passes_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

SOMA_INLINE void PipelineGradients::describe(Report& report) const {
  if (!planned_) return;
  const PipelineOptions& pipeline = options_.pipeline;
  const auto mebibytes = [](double bytes) { return soma::fixed(bytes / (1 << 20), 2); };
  const auto milliseconds = [](double seconds) {
    return seconds > 0 ? soma::fixed(1e3 * seconds, 1) + " ms" : std::string("not known");
  };
  std::string text = "  pipeline          " + std::to_string(pipeline.partitions) + " stages x " +
                     std::to_string(groups_.replica_count()) + " replicas, " +
                     std::to_string(pipeline.microbatches) + " micro-batches, " +
                     (pipeline.schedule == Pipeline::simple ? "simple" : "interleaved") +
                     "; forward and backward " + milliseconds(measured_seconds()) + ", predicted " +
                     milliseconds(predicted_seconds()) + "\n";
  const std::vector<StageReport> stages = stage_reports();
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const StageReport& own = stages[stage];
    const PieceCost& first = plan_.pieces[plan_.first_piece(stage)];
    const PieceCost& last = plan_.pieces[plan_.end_piece(stage) - 1];
    text.append("    stage " + std::to_string(stage) + "         " + first.name +
                (first.name == last.name ? std::string() : " to " + last.name) + ": " +
                soma::fixed(own.parameters, 0) + " parameters, gradients " +
                mebibytes(own.gradients) + " MiB, moments " + mebibytes(own.moments) +
                " MiB, activations " + mebibytes(own.measured_activations) + " MiB (predicted " +
                (own.predicted_activations > 0 ? mebibytes(own.predicted_activations) + " MiB"
                                               : std::string("not known")) +
                "), heap " + mebibytes(own.heap) + " MiB\n");
    if (stage < estimates_.size())
      text.append("      predicted       heap " +
                  mebibytes(static_cast<double>(estimates_[stage].heap())) +
                  " MiB: " + to_string(estimates_[stage]) + "\n");
  }
  report.pipeline = text;
}

}  // namespace SOMA_NAMESPACE::train
