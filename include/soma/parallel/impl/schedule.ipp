#pragma once
// The functions of schedule.hpp.

#include <soma/parallel/schedule.hpp>

#include <soma/base/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::size_t PipelineSchedule::partitions() const { return stages.size(); }

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void check_pipeline_size(std::size_t partitions, std::size_t microbatches) {
  if (partitions == 0 || microbatches == 0)
    fail(error_id::parallel_argument, "PipelineSchedule",
         partitions == 0 ? "partitions" : "microbatches", "0", "at least 1");
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE PipelineSchedule simple_schedule(std::size_t partitions, std::size_t microbatches) {
  detail::check_pipeline_size(partitions, microbatches);
  PipelineSchedule schedule{microbatches, {}};
  schedule.stages.resize(partitions);
  for (auto& stage : schedule.stages)
    for (const PipelineOp op : {PipelineOp::forward, PipelineOp::backward})
      for (std::size_t i = 0; i < microbatches; ++i) stage.push_back({op, i});
  return schedule;
}

SOMA_INLINE std::size_t pipeline_warm_up(std::size_t partitions, std::size_t microbatches,
                                         std::size_t extra, std::size_t stage) {
  const std::size_t behind = partitions - 1 - stage;
  return (std::min)(microbatches, behind + (std::min)(behind, extra));
}

SOMA_INLINE PipelineSchedule interleaved_schedule(std::size_t partitions, std::size_t microbatches,
                                                  std::size_t extra) {
  detail::check_pipeline_size(partitions, microbatches);
  PipelineSchedule schedule{microbatches, {}};
  schedule.stages.resize(partitions);
  for (std::size_t s = 0; s < partitions; ++s) {
    auto& stage = schedule.stages[s];
    std::size_t next = pipeline_warm_up(partitions, microbatches, extra, s);
    for (std::size_t i = 0; i < next; ++i) stage.push_back({PipelineOp::forward, i});
    for (std::size_t i = 0; i < microbatches; ++i) {
      if (next < microbatches) stage.push_back({PipelineOp::forward, next++});
      stage.push_back({PipelineOp::backward, i});
    }
  }
  return schedule;
}

SOMA_INLINE PipelineSchedule zero_bubble_schedule(std::size_t partitions,
                                                  std::size_t microbatches) {
  detail::check_pipeline_size(partitions, microbatches);
  PipelineSchedule schedule{microbatches, {}};
  schedule.stages.resize(partitions);
  for (std::size_t s = 0; s < partitions; ++s) {
    auto& stage = schedule.stages[s];
    std::size_t next = pipeline_warm_up(partitions, microbatches, 0, s), weights = 0;
    for (std::size_t i = 0; i < next; ++i) stage.push_back({PipelineOp::forward, i});
    for (std::size_t i = 0; i < microbatches; ++i) {
      const bool steady = next < microbatches;
      if (steady) stage.push_back({PipelineOp::forward, next++});
      stage.push_back({PipelineOp::input_gradient, i});
      if (!steady || i >= s) stage.push_back({PipelineOp::weight_gradient, weights++});
    }
    while (weights < microbatches) stage.push_back({PipelineOp::weight_gradient, weights++});
  }
  return schedule;
}

SOMA_INLINE std::string to_text(const PipelineAction& action) {
  return "FBIW"[static_cast<std::size_t>(action.op)] + std::to_string(action.microbatch);
}

SOMA_INLINE std::string to_text(const PipelineSchedule& schedule) {
  std::string text;
  for (const auto& stage : schedule.stages) {
    for (std::size_t i = 0; i < stage.size(); ++i)
      text.append(i == 0 ? "" : " ").append(to_text(stage[i]));
    text.push_back('\n');
  }
  return text;
}

SOMA_INLINE double StageTimes::of(PipelineOp op) const {
  switch (op) {
    case PipelineOp::forward:
      return forward;
    case PipelineOp::backward:
      return backward;
    case PipelineOp::input_gradient:
      return input_gradient;
    case PipelineOp::weight_gradient:
      break;
  }
  return weight_gradient;
}

SOMA_INLINE const StageTimes& PipelineTimes::of(std::size_t stage) const {
  return stages[stages.size() == 1 ? 0 : stage];
}

SOMA_INLINE double PipelineTimes::link(std::size_t cut) const {
  return cut < links.size() ? links[cut] : latency;
}

SOMA_INLINE Simulation simulate(const PipelineSchedule& schedule, const PipelineTimes& times) {
  const std::size_t p = schedule.partitions(), m = schedule.microbatches;
  if (times.stages.empty() || (times.stages.size() != 1 && times.stages.size() != p))
    fail(error_id::parallel_argument, "simulate", "times", std::to_string(times.stages.size()),
         "one for each of " + std::to_string(p) + " stages, or one for all");
  constexpr double never = -1;
  Simulation result;
  result.busy.resize(p);
  result.in_flight.resize(p);
  std::vector<double> forward(p * m, never), backward(p * m, never), clock(p);
  std::vector<std::size_t> next(p), held(p);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < p; ++s)
      for (; next[s] < schedule.stages[s].size(); ++next[s]) {
        const PipelineAction action = schedule.stages[s][next[s]];
        const std::size_t i = action.microbatch;
        double ready = 0;
        if (action.op == PipelineOp::forward && s > 0)
          ready = forward[(s - 1) * m + i];
        else if (detail::is_backward(action.op))
          ready = s + 1 < p ? backward[(s + 1) * m + i] : forward[s * m + i];
        if (ready == never) break;
        const bool travels =
            action.op == PipelineOp::forward ? s > 0 : detail::is_backward(action.op) && s + 1 < p;
        const std::size_t cut = action.op == PipelineOp::forward && s > 0 ? s - 1 : s;
        const double begin = (std::max)(clock[s], ready + (travels ? times.link(cut) : 0));
        const double length = times.of(s).of(action.op);
        clock[s] = begin + length;
        result.busy[s] += length;
        if (action.op == PipelineOp::forward) {
          forward[s * m + i] = clock[s];
          result.in_flight[s] = (std::max)(result.in_flight[s], ++held[s]);
        } else if (detail::is_backward(action.op)) {
          backward[s * m + i] = clock[s];
        }
        if (action.op == PipelineOp::backward || action.op == PipelineOp::weight_gradient)
          --held[s];
        moved = true;
      }
  }
  for (std::size_t s = 0; s < p; ++s) {
    result.makespan = (std::max)(result.makespan, clock[s]);
    if (result.stuck.empty() && next[s] < schedule.stages[s].size())
      result.stuck = to_text(schedule.stages[s][next[s]]) + " of stage " + std::to_string(s);
  }
  return result;
}

SOMA_INLINE void validate(const PipelineSchedule& schedule) {
  const auto refuse = [](std::size_t stage, const std::string& given, const std::string& wanted) {
    fail(error_id::parallel_argument, "PipelineSchedule", "stage " + std::to_string(stage), given,
         wanted);
  };
  const std::size_t m = schedule.microbatches;
  detail::check_pipeline_size(schedule.partitions(), m);
  for (std::size_t s = 0; s < schedule.partitions(); ++s) {
    std::vector<char> seen(4 * m);
    const auto has = [&](PipelineOp op, std::size_t i) -> char& {
      return seen[static_cast<std::size_t>(op) * m + i];
    };
    std::size_t gradients = 0, weights = 0;
    for (const PipelineAction action : schedule.stages[s]) {
      const std::size_t i = action.microbatch;
      const std::string name = to_text(action);
      if (static_cast<std::size_t>(action.op) > 3 || i >= m)
        refuse(s, name, "micro-batches 0 to " + std::to_string(m - 1));
      if (has(action.op, i)++ != 0) refuse(s, name + " twice", "each action once");
      if (action.op == PipelineOp::forward) continue;
      if (!has(PipelineOp::forward, i)) refuse(s, name + " before its forward", "forward first");
      if (action.op == PipelineOp::weight_gradient) {
        if (!has(PipelineOp::input_gradient, i))
          refuse(s, name + " before its I", "the gradient of the input first");
        if (i != weights++) refuse(s, name, "W in ascending order, as sums are made");
        continue;
      }
      if (has(PipelineOp::backward, i) && has(PipelineOp::input_gradient, i))
        refuse(s, name + " beside the other kind of backward", "B, or I and W");
      if (i != gradients++) refuse(s, name, "backwards in ascending order, as sums are made");
    }
    for (std::size_t i = 0; i < m; ++i) {
      const bool whole = has(PipelineOp::backward, i) != 0;
      if (!has(PipelineOp::forward, i) || (!whole && !has(PipelineOp::weight_gradient, i)))
        refuse(s,
               "no " + std::string(has(PipelineOp::forward, i) ? "backward" : "forward") +
                   " of micro-batch " + std::to_string(i),
               "both of every micro-batch");
    }
  }
  if (const std::string stuck = simulate(schedule, {.stages = {StageTimes{}}}).stuck;
      !stuck.empty())
    fail(error_id::parallel_argument, "PipelineSchedule", "order", stuck + " never runs",
         "stages that do not wait for each other");
}

}  // namespace SOMA_NAMESPACE
