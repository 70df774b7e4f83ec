#pragma once
// The functions of plan_costs.hpp.

#include <soma/train/pipeline/plan_costs.hpp>

#include <soma/base/error.hpp>
#include <soma/data/part.hpp>
#include <soma/parallel/schedule.hpp>
#include <soma/runtime/context.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/machine.hpp>
#include <soma/system/process.hpp>
#include <soma/train/pipeline/planner.hpp>
#include <soma/train/pipeline/profiler.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE PipelineOptions options_of(const PlanLayout& layout) {
  return {.partitions = layout.partitions,
          .microbatches = layout.microbatches,
          .schedule = layout.schedule,
          .optimize = layout.optimize};
}

[[noreturn]] SOMA_INLINE void refuse_partitions(std::size_t partitions, std::size_t pieces) {
  fail(error_id::parallel_plan, "pipeline", "partitions", std::to_string(partitions),
       "1 to the number of pieces that can be apart, of " + std::to_string(pieces));
}

// The next partition in the order of all of them; false: there is none.
SOMA_INLINE bool next_cuts(std::vector<std::size_t>& cuts, const std::vector<std::size_t>& places) {
  for (std::size_t i = cuts.size(); i-- > 0;)
    if (cuts[i] + (cuts.size() - i) < places.size()) {
      ++cuts[i];
      for (std::size_t j = i + 1; j < cuts.size(); ++j) cuts[j] = cuts[j - 1] + 1;
      return true;
    }
  return false;
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE std::vector<std::vector<std::size_t>> all_cuts(const std::vector<PieceCost>& pieces,
                                                           std::size_t partitions,
                                                           std::size_t most) {
  std::vector<std::size_t> places;
  for (std::size_t i = 1; i < pieces.size(); ++i)
    if (!pieces[i].joined) places.push_back(i);
  std::vector<std::vector<std::size_t>> all;
  if (partitions == 0 || places.size() + 1 < partitions) return all;
  std::vector<std::size_t> chosen(partitions - 1);
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = i;
  do {
    if (all.size() == most) return {};
    std::vector<std::size_t>& cuts = all.emplace_back();
    for (const std::size_t place : chosen) cuts.push_back(places[place]);
  } while (detail::next_cuts(chosen, places));
  return all;
}

SOMA_INLINE PlanCosts::PlanCosts(std::vector<PieceCost> pieces,
                                 std::vector<std::vector<ParameterMemory>> parameters,
                                 BatchSizes batches, const PlanBasis& setting)
    : pieces_(std::move(pieces)),
      parameters_(std::move(parameters)),
      batches_(std::move(batches)),
      setting_(setting) {}

SOMA_INLINE void PlanCosts::set_profiles(std::vector<PieceProfile> profiles, bool recompute) {
  (recompute ? again_ : plain_) = std::move(profiles);
}

SOMA_INLINE std::size_t PlanCosts::size_index(const PlanLayout& layout) {
  std::size_t k = 0;
  while ((std::size_t{1} << k) < layout.microbatches * layout.replicas) ++k;
  return k;
}

SOMA_INLINE const std::vector<PieceProfile>& PlanCosts::profiles(const PlanLayout& layout) const {
  return layout.recompute ? again_ : plain_;
}

SOMA_INLINE bool PlanCosts::has(const PlanLayout& layout) const {
  const std::vector<PieceProfile>& known = profiles(layout);
  const std::size_t k = size_index(layout);
  return !known.empty() && k < known.front().sizes.size() &&
         !known.front().sizes[k].backward.empty();
}

SOMA_INLINE std::uint64_t PlanCosts::result_bytes(const PlanLayout& layout,
                                                  std::size_t piece) const {
  return profiles(layout)[piece].sizes[size_index(layout)].result;
}

SOMA_INLINE std::vector<PieceCost> PlanCosts::costs(const PlanLayout& layout) const {
  std::vector<PieceCost> all = pieces_;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const PieceMemory& memory = profiles(layout)[i].sizes[size_index(layout)];
    all[i].forward_seconds = memory.forward_seconds;
    all[i].backward_seconds = memory.backward_seconds;
    all[i].saved_bytes = memory.saved;
    all[i].boundary_bytes = i + 1 == all.size() ? 0 : memory.result;
  }
  return all;
}

SOMA_INLINE std::vector<ParameterMemory> PlanCosts::parameters_of_stage(std::size_t first,
                                                                        std::size_t end) const {
  std::vector<ParameterMemory> all;
  for (std::size_t i = first; i < end; ++i)
    for (ParameterMemory parameter : parameters_[i]) {
      if (parameter.before != to_end && parameter.before >= first) continue;  // it is there
      if (parameter.last >= end) {
        parameter.moments = 0;
        parameter.trained = false;
      }
      all.push_back(parameter);
    }
  return all;
}

SOMA_INLINE MemoryEstimate PlanCosts::stage(const PlanLayout& layout, std::size_t stage,
                                            std::size_t first, std::size_t end) const {
  const PipelineOptions options = detail::options_of(layout);
  const std::size_t work = layout.microbatches * setting_.accumulate;
  RankProblem problem{.pieces = std::span(profiles(layout)).subspan(first, end - first),
                      .batches = &batches_,
                      .actions = schedule_of(options, work).stages[stage],
                      .in_flight = in_flight(options, work, stage),
                      .first = stage == 0,
                      .last = stage + 1 == layout.partitions,
                      .microbatches = layout.microbatches,
                      .replicas = layout.replicas,
                      .accumulate = setting_.accumulate,
                      .sums = !layout.plain() || layout.replicas > 1 ? GradientSums::ranks
                              : setting_.early                       ? GradientSums::early
                                                                     : GradientSums::tape,
                      .shard = layout.shard_optimizer && layout.replicas > 1,
                      .bucket_bytes = setting_.bucket_bytes,
                      .average = setting_.average,
                      .whole_first_step = setting_.whole_first_step,
                      .evaluates = setting_.evaluates,
                      .between_steps = setting_.between_steps,
                      .keeps_best = setting_.keeps_best,
                      .evaluated = setting_.evaluated,
                      .data = setting_.data};
  if (!problem.last) problem.in_flight_behind = in_flight(options, work, stage + 1);
  if (first != 0) {
    problem.input = result_bytes(layout, first - 1);
    problem.beside_input = problem.pieces.front().sizes[size_index(layout)].beside_input;
  }
  problem.parameters = parameters_of_stage(first, end);
  for (const ParameterMemory& parameter : problem.parameters)
    if (parameter.trained && parameter.before < first)
      for (const GradientStep& step : profiles(layout)[parameter.before].sizes.front().backward)
        if (step.shape == parameter.shape) problem.shared = (std::max)(problem.shared, step.bytes);
  if (stage == 0)
    for (std::size_t i = end; i < pieces_.size(); ++i)
      for (const ParameterMemory& parameter : parameters_[i])
        if (parameter.before >= end)  // else it has a copy
          problem.fetched = (std::max)(problem.fetched, parameter.value);
  MemoryEstimate estimate = estimate_rank(problem);
  if (!layout.plain() && estimate.heap() < setting_.whole + setting_.data)
    estimate = {.weights = setting_.whole, .data = setting_.data};
  if (setting_.makes_weights) {
    // An initial value is fp32 before it has its own type.
    MemoryEstimate made{.data = setting_.data};
    for (const ParameterMemory& parameter : problem.parameters) {
      made.weights += parameter.value + tensor_bytes;
      const std::uint64_t wide = parameter.shape.elements() * sizeof(float);
      if (wide > parameter.value)
        made.workspaces = (std::max)(made.workspaces, wide + tensor_bytes);
    }
    if (made.heap() > estimate.heap()) estimate = made;
  }
  // The heap takes memory from the host in large pages, and an eighth ahead.
  constexpr std::uint64_t page = std::uint64_t{2} << 20;
  estimate.slack = estimate.heap() / 8 + 2 * page;
  estimate.program = setting_.program;
  estimate.mapped = setting_.mapped;
  return estimate;
}

SOMA_INLINE std::vector<MemoryEstimate> PlanCosts::stages(
    const PlanLayout& layout, const std::vector<std::size_t>& cuts) const {
  std::vector<MemoryEstimate> all;
  for (std::size_t k = 0; k < layout.partitions; ++k)
    all.push_back(
        stage(layout, k, k == 0 ? 0 : cuts[k - 1], k < cuts.size() ? cuts[k] : pieces_.size()));
  // The first rank measures before it trains. No cut changes that, so it plays no role in choosing.
  MemoryEstimate& first = all.front();
  if (setting_.profile > first.heap())
    first.slack = (std::max)(first.slack, setting_.profile - first.heap());
  return all;
}

SOMA_INLINE std::uint64_t PlanCosts::largest(const PlanLayout& layout,
                                             const std::vector<std::size_t>& cuts) const {
  std::uint64_t most = 0;
  for (const MemoryEstimate& rank : stages(layout, cuts)) most = (std::max)(most, rank.process());
  return most;
}

// The exchange of gradients between replicas, as far as backward does not hide it: backward of the
// last micro-batch hides all but the last bucket, unless ranks keep all cores of a machine busy.
SOMA_INLINE double PlanCosts::reduction_seconds(const PlanLayout& layout, std::size_t first,
                                                std::size_t end) const {
  if (layout.replicas == 1) return 0;
  const std::size_t k = size_index(layout);
  double bytes = 0, hides = 0;
  for (std::size_t i = first; i < end; ++i) {
    const PieceMemory& size = profiles(layout)[i].sizes[k];
    for (const GradientStep& step : size.backward) bytes += static_cast<double>(step.bytes);
    hides += size.backward_seconds;
  }
  const auto ranks = static_cast<int>(layout.partitions * layout.replicas);
  if (setting_.one_machine && ranks * setting_.threads >= setting_.cores) hides = 0;
  const auto replicas = static_cast<double>(layout.replicas);
  const double all = 2 * bytes * (replicas - 1) / replicas / setting_.network;
  const double bucket =
      (std::min)(all, static_cast<double>(setting_.bucket_bytes) * 2 / setting_.network);
  return (std::max)(bucket, all - hides);
}

SOMA_INLINE double PlanCosts::seconds(const PlanLayout& layout,
                                      const std::vector<std::size_t>& cuts) const {
  const std::size_t k = size_index(layout);
  const std::size_t work = layout.microbatches * setting_.accumulate;
  PipelineTimes times;
  double busy = 0, behind = 0;
  for (std::size_t stage = 0; stage < layout.partitions; ++stage) {
    const std::size_t first = stage == 0 ? 0 : cuts[stage - 1];
    const std::size_t end = stage < cuts.size() ? cuts[stage] : pieces_.size();
    StageTimes& own = times.stages.emplace_back();
    own.forward = own.backward = 0;
    double bytes = 0, gradients = 0;
    for (std::size_t i = first; i < end; ++i) {
      const PieceMemory& size = profiles(layout)[i].sizes[k];
      own.forward += size.forward_seconds;
      own.backward += size.backward_seconds;
      for (const GradientStep& gradient : size.backward)
        gradients += static_cast<double>(gradient.bytes);
    }
    // Gradients of each micro-batch but the first are added to those before it.
    own.backward +=
        3 * gradients / setting_.memory * static_cast<double>(work - 1) / static_cast<double>(work);
    for (const ParameterMemory& parameter : parameters_of_stage(first, end))
      if (parameter.trained)
        bytes += static_cast<double>(3 * parameter.value + 2 * parameter.moments);
    if (stage < cuts.size())
      times.links.push_back(static_cast<double>(result_bytes(layout, end - 1)) / setting_.network);
    const double step =
        bytes / setting_.memory / static_cast<double>(layout.shard_optimizer ? layout.replicas : 1);
    busy += step + (own.forward + own.backward) * static_cast<double>(work);
    behind = (std::max)(behind, step + reduction_seconds(layout, first, end));
  }
  if (busy == 0) return 0;
  const PipelineSchedule schedule = schedule_of(detail::options_of(layout), work);
  const double span = simulate(schedule, times).makespan + behind;
  if (!setting_.one_machine) return span;
  // The cores of the machine are shared.
  const double all = busy * static_cast<double>(layout.replicas) *
                     static_cast<double>(setting_.threads) /
                     static_cast<double>((std::max)(setting_.cores, 1));
  return (std::max)(span, all);
}

SOMA_INLINE std::uint64_t PlanCosts::sent(const PlanLayout& layout,
                                          const std::vector<std::size_t>& cuts) const {
  const std::uint64_t each = layout.microbatches * layout.replicas * setting_.accumulate;
  std::uint64_t bytes = 0;
  for (const std::size_t cut : cuts) bytes += 2 * each * result_bytes(layout, cut - 1);
  // Values go from the stage that trains a shared parameter to those with a copy.
  for (std::size_t stage = 0; stage < cuts.size(); ++stage)
    for (const ParameterMemory& copy :
         parameters_of_stage(stage == 0 ? 0 : cuts[stage - 1], cuts[stage]))
      if (copy.last >= cuts[stage]) bytes += copy.value * layout.replicas;
  if (layout.replicas == 1) return bytes;
  // Sums go half the way and back, or the weights do.
  const std::size_t k = size_index(layout);
  for (const PieceProfile& piece : profiles(layout))
    for (const GradientStep& step : piece.sizes[k].backward)
      bytes += 2 * (layout.replicas - 1) * step.bytes * setting_.accumulate;
  return bytes;
}

// The largest stage as small as possible: best[k][i] of pieces i ... n - 1 as stages k ... p - 1,
// and then the least bytes that cross cuts.
SOMA_INLINE std::vector<std::size_t> PlanCosts::smallest(const PlanLayout& layout) const {
  constexpr std::uint64_t none = (std::numeric_limits<std::uint64_t>::max)();
  const std::size_t n = pieces_.size(), p = layout.partitions;
  const auto may_begin = [&](std::size_t i) { return i >= n || !pieces_[i].joined; };
  std::vector<std::vector<std::uint64_t>> bytes(p, std::vector<std::uint64_t>(n * (n + 1), none));
  std::vector<std::vector<std::uint64_t>> best(p + 1, std::vector<std::uint64_t>(n + 1, none));
  std::vector<std::vector<std::uint64_t>> least = best;
  best[p][n] = 0;
  for (std::size_t k = p; k-- > 0;)
    for (std::size_t i = k; i < n; ++i) {
      if (k == 0 && i != 0) break;
      for (std::size_t j = i + 1; j <= n; ++j) {
        if (!may_begin(j) || best[k + 1][j] == none) continue;
        std::uint64_t& own = bytes[k][i * (n + 1) + j];
        own = stage(layout, k, i, j).process();
        best[k][i] = (std::min)(best[k][i], (std::max)(own, best[k + 1][j]));
      }
    }
  if (best[0][0] == none) detail::refuse_partitions(p, n);
  const std::uint64_t limit = best[0][0];
  least[p][n] = 0;
  for (std::size_t k = p; k-- > 0;)
    for (std::size_t i = k; i < n; ++i)
      for (std::size_t j = i + 1; j <= n; ++j) {
        if (bytes[k][i * (n + 1) + j] > limit || least[k + 1][j] == none) continue;
        const std::uint64_t crossing = j == n ? 0 : result_bytes(layout, j - 1);
        least[k][i] = (std::min)(least[k][i], crossing + least[k + 1][j]);
      }
  std::vector<std::size_t> cuts;
  for (std::size_t k = 0, i = 0; k + 1 < p; ++k) {
    std::size_t j = i + 1;
    while (bytes[k][i * (n + 1) + j] > limit || least[k + 1][j] == none ||
           result_bytes(layout, j - 1) + least[k + 1][j] != least[k][i])
      ++j;
    cuts.push_back(j);
    i = j;
  }
  return cuts;
}

SOMA_INLINE std::vector<std::size_t> PlanCosts::fastest(const PlanLayout& layout,
                                                        std::uint64_t limit) const {
  constexpr std::size_t most = 4096;
  struct Candidate {
    double seconds;
    std::uint64_t sent;
    std::vector<std::size_t> cuts;
  };
  std::vector<Candidate> candidates;
  const auto add = [&](const std::vector<std::size_t>& cuts) {
    candidates.push_back({seconds(layout, cuts), sent(layout, cuts), cuts});
  };
  for (const std::vector<std::size_t>& cuts : all_cuts(pieces_, layout.partitions, most)) add(cuts);
  if (candidates.empty()) {  // too many: the slowest stage as fast as possible, and its neighbours
    PartitionProblem problem{.partitions = layout.partitions};
    const std::size_t k = size_index(layout);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const PieceMemory& size = profiles(layout)[i].sizes[k];
      problem.weights.push_back(size.forward_seconds + size.backward_seconds);
      problem.joined.push_back(pieces_[i].joined ? 1 : 0);
    }
    add(partition_pieces(problem));
    for (bool better = true; better;) {
      better = false;
      const std::vector<std::size_t> base = candidates.front().cuts;
      for (std::size_t c = 0; c < base.size(); ++c)
        for (const int by : {-2, -1, 1, 2}) {
          std::vector<std::size_t> moved = base;
          moved[c] = static_cast<std::size_t>(static_cast<int>(moved[c]) + by);
          const std::size_t before = c == 0 ? 0 : moved[c - 1];
          const std::size_t behind = c + 1 < moved.size() ? moved[c + 1] : pieces_.size();
          if (moved[c] <= before || moved[c] >= behind || pieces_[moved[c]].joined) continue;
          add(moved);
          if (candidates.back().seconds < candidates.front().seconds) {
            std::swap(candidates.back(), candidates.front());
            better = true;
          }
        }
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return a.seconds != b.seconds ? a.seconds < b.seconds : a.sent < b.sent;
                   });
  for (const Candidate& candidate : candidates)
    if (limit == 0 || largest(layout, candidate.cuts) <= limit) return candidate.cuts;
  return {};
}

SOMA_INLINE std::vector<std::size_t> PlanCosts::best_cuts(const PlanLayout& layout,
                                                          std::uint64_t limit) const {
  std::size_t apart = 0;
  for (const PieceCost& piece : pieces_) apart += piece.joined ? 0 : 1;
  if (layout.partitions == 0 || layout.partitions > apart)
    detail::refuse_partitions(layout.partitions, pieces_.size());
  if (layout.partitions == 1) return {};
  if (layout.optimize == Optimize::speed) {
    std::vector<std::size_t> cuts = fastest(layout, limit);
    if (!cuts.empty()) return cuts;
  }
  return smallest(layout);
}

SOMA_INLINE std::vector<std::size_t> PlanCosts::choose(const PlanLayout& layout,
                                                       std::uint64_t limit) const {
  std::vector<std::size_t> cuts = best_cuts(layout, limit);
  const std::uint64_t needed = limit == 0 ? 0 : largest(layout, cuts);
  if (needed > limit)
    fail(error_id::parallel_plan, "pipeline", "memory_limit", std::to_string(limit) + " bytes",
         "at least " + std::to_string(limit_for(needed)) + " bytes, which the largest rank needs");
  return cuts;
}

SOMA_INLINE std::uint64_t limit_for(std::uint64_t bytes) {
  return bytes + (std::uint64_t{1} << 20);
}

SOMA_INLINE std::vector<std::size_t> parts_up_to(std::size_t most) {
  std::vector<std::size_t> parts;
  for (std::size_t count = 1; count <= most; count *= 2) parts.push_back(count);
  return parts;
}

SOMA_INLINE std::size_t batches_to_read(const TrainerOptions& options,
                                        const data::BatchSource& source) {
  constexpr std::uint64_t most = 4096;
  std::uint64_t batches = options.max_steps * options.accumulate;
  std::uint64_t all = 0;
  for (std::uint64_t epoch = 0; epoch < options.epochs && all < most; ++epoch)
    all += source.batches(epoch);
  if (all != 0 && (batches == 0 || all < batches)) batches = all;
  return static_cast<std::size_t>(batches == 0 || batches > most ? most : batches);
}

}  // namespace SOMA_NAMESPACE::train

namespace SOMA_NAMESPACE::train::detail {

// The largest part of any batch, for each number of parts.
SOMA_INLINE std::vector<ProfileSize> sizes_of(Context& context, const BatchSizes& batches,
                                              data::BatchSource& source,
                                              const CostRequest& request) {
  std::vector<ProfileSize> sizes;
  const data::Position begin = source.position();
  const auto add = [&](std::size_t parts, bool timed) {
    for (const ProfileSize& known : sizes)
      if (known.parts == parts) return;
    std::size_t k = 0;
    while ((std::size_t{1} << k) < parts) ++k;
    if (k >= batches.largest.size()) return;
    const PartPosition& largest = batches.largest[k];
    source.seek(largest.batch);
    data::Batch batch;
    if (!source.next(batch)) return;
    const std::size_t each = batches.shards / parts, before = context.heap().bytes_in_use();
    ProfileSize size{.parts = parts, .part = batch, .timed = timed};
    if (parts > 1) size.part = data::part_of(context, batch, largest.index * each, each);
    size.bytes = context.heap().bytes_in_use() - before;
    size.part.part = true;  // as ranks and stages see it
    sizes.push_back(std::move(size));
  };
  for (const std::size_t parts : request.timed) add(parts, true);
  for (const std::size_t parts : request.others) add(parts, false);
  source.seek(begin);
  return sizes;
}

// Pages of code that a run touches only after it was planned; 1.1 MiB were measured.
constexpr std::uint64_t later_code = std::uint64_t{5} << 18;

// The times of pieces with recomputation from those without it, or the other way round: a piece
// that keeps less computes its forward again.
SOMA_INLINE void derive_times(const std::vector<PieceProfile>& timed,
                              std::vector<PieceProfile>& derived) {
  for (std::size_t i = 0; i < timed.size(); ++i)
    for (std::size_t k = 0; k < timed[i].sizes.size(); ++k) {
      const PieceMemory& from = timed[i].sizes[k];
      PieceMemory& to = derived[i].sizes[k];
      to.forward_seconds = from.forward_seconds;
      to.backward_seconds = from.backward_seconds;
      if (to.saved < from.saved)
        to.backward_seconds += from.forward_seconds;
      else if (to.saved > from.saved)
        to.backward_seconds = (std::max)(0.0, from.backward_seconds - from.forward_seconds);
    }
}

constexpr std::size_t rate_bytes = std::size_t{4} << 20;

// Bytes a second that a pass over memory reads and writes. Needs twice rate_bytes of the heap.
SOMA_INLINE double memory_rate(Context& context) {
  constexpr int times = 4;
  const HeapVector<std::byte> from(rate_bytes, context.heap());
  HeapVector<std::byte> to(rate_bytes, context.heap());
  std::copy(from.begin(), from.end(), to.begin());
  const std::int64_t start = monotonic_nanoseconds();
  for (int i = 0; i < times; ++i) std::copy(from.begin(), from.end(), to.begin());
  const auto nanoseconds = static_cast<double>(monotonic_nanoseconds() - start + 1);
  return 2.0 * times * static_cast<double>(rate_bytes) / nanoseconds * 1e9;
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE PlanCosts measure_costs(Context& context, nn::Task& task, const nn::Pieces& pieces,
                                    const TrainerOptions& options,
                                    const std::vector<PieceCost>& known, const BatchSizes& batches,
                                    data::BatchSource& source, const CostRequest& request) {
  std::vector<std::vector<ParameterMemory>> parameters;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    parameters.push_back(parameters_of(i, pieces, options));
  if (pieces.empty()) {
    parameters.emplace_back();
    for (const Parameter& parameter : task.parameters())
      parameters.back().push_back(memory_of(parameter, options));
  }
  std::uint64_t present = 0;
  for (const Parameter& parameter : task.parameters())
    if (parameter.value().defined()) present += parameter.value().bytes();
  context.heap().trim();
  const std::uint64_t in_use = context.heap().bytes_in_use();
  const std::uint64_t files = system::resident_file_bytes();
  const std::uint64_t own = system::resident_bytes() - files;
  PlanBasis setting{
      .accumulate = options.accumulate,
      .bucket_bytes = options.reduce_bucket_bytes,
      .average = options.average.has_value(),
      .keeps_best = options.keep_best && options.checkpoints == nullptr,
      .early = options.step_early,
      .makes_weights = options.pipeline.later != nullptr,
      .between_steps = options.evaluate_every != 0,
      .data = (in_use > present ? in_use - present : 0) + batches.bytes * options.accumulate,
      .program = own > in_use ? own - in_use : 0,
      .mapped = files == 0 ? 0 : files + detail::later_code,
      .evaluated = request.evaluated,
      .one_machine = request.network == 0,
      .cores = system::processors(),
      .threads = context.executor().width};
  setting.whole_first_step = PrecisionState(context, options.precision, 0).remembers_scales();
  if (options.pipeline.later == nullptr)
    for (const Parameter& parameter : task.parameters()) setting.whole += parameter.value().bytes();
  setting.memory = detail::memory_rate(context);
  // Between processes of one machine a byte is copied into a message and out of it, and every
  // second one is added to another: about six bytes of memory.
  setting.network = request.network != 0 ? request.network : setting.memory / 6;
  std::vector<ProfileSize> sizes = detail::sizes_of(context, batches, source, request);
  const bool recomputes = task.recomputes();
  const auto measure = [&] {
    PieceProfiler profiler(context, task, pieces, options);
    return profiler.measure(sizes);
  };
  std::vector<PieceProfile> first = measure(), second;
  if (request.recompute_too && task.set_recompute(!recomputes)) {
    for (ProfileSize& size : sizes) size.timed = false;
    second = measure();
    detail::derive_times(first, second);
    task.set_recompute(recomputes);
  }
  setting.profile = context.memory_use().bytes_in_use;
  context.heap().trim();
  PlanCosts costs(known, std::move(parameters), batches, setting);
  costs.set_profiles(std::move(first), recomputes);
  if (!second.empty()) costs.set_profiles(std::move(second), !recomputes);
  return costs;
}

}  // namespace SOMA_NAMESPACE::train
