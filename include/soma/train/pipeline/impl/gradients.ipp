#pragma once
// Makes the gradients of a step: micro-batches through the stages, then the results and the norm
// for every stage.

#include <soma/train/pipeline/gradients.hpp>

#include <soma/optim/gradients.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE PipelineGradients::PipelineGradients(Context& context, nn::Task& task,
                                                 const TrainerOptions& options,
                                                 PrecisionState& precision, PipelineRanks& ranks)
    : context_(context),
      task_(task),
      options_(options),
      precision_(precision),
      ranks_(ranks),
      groups_(ranks.groups()),
      pieces_(task.pieces()),
      own_(task.parameters()),
      plan_(known_plan(pieces_, task.parameters(), options.pipeline)),
      shared_(context, groups_.pipeline(), *ranks.same_stage().receiver()),
      stage_(context, task, groups_.pipeline(),
             {.seed = options.seed,
              .activations = precision.activations(),
              .precision = &precision,
              .batch_sums = ranks.same_stage().batch_sums()},
             shared_) {
  check();
  if (ranks.first()) decision_ = read_decision(options.pipeline, plan_);
}

SOMA_INLINE const Parameters& PipelineGradients::model_parameters() const {
  return task_.parameters();
}

SOMA_INLINE void PipelineGradients::begin(data::BatchSource& batches) {
  if (!std::exchange(planned_, true)) {
    decide(batches);
    take_stage();
    context_.heap().reset_peak();  // the report counts from here on
  }
  distribute();
  copies_are_old_ = true;
}

SOMA_INLINE StepSums PipelineGradients::run(data::BatchSource& batches,
                                            const StepRequest& request) {
  clear_gradients(own_);
  clear_gradients(shared_.copies());
  // The weights of a checkpoint, or those that an evaluation of averages has put back.
  if (std::exchange(copies_are_old_, false)) shared_.update();
  ranks_.same_stage().begin_step(request.step, precision_.mapping());
  precision_.gather_gradients(request.batches > 1);
  StepSums sums;
  const ReductionTimes before = ranks_.same_stage().reduction_times();
  std::vector<data::Batch> read;
  std::vector<double> counts;
  while (read.size() < request.batches) {
    const std::int64_t start = monotonic_nanoseconds();
    data::Batch batch;
    const bool more = batches.next(batch);
    sums.wait_seconds += static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
    if (!more) break;
    counts.push_back(task_.loss_count(batch));
    sums.losses += counts.back();
    add_batch(batch, sums);
    read.push_back(std::move(batch));
  }
  sums.batches = read.size();
  if (read.empty()) return sums;

  // Scales that depend on the whole batch cannot be computed for its parts.
  const bool whole = options_.pipeline.microbatches > 1 && precision_.remembers_scales() &&
                     groups_.any(!precision_.scales_known());
  const std::size_t microbatches = whole ? 1 : options_.pipeline.microbatches;
  std::vector<MicrobatchWork> work;
  for (std::size_t i = 0; i < read.size(); ++i) {
    const float weight =
        request.loss_scale * static_cast<float>(request.batches == 1 ? 1 : counts[i]);
    for (std::size_t j = 0; j < microbatches; ++j)
      work.push_back({.part = part_of(read[i], j, microbatches),
                      .draw = static_cast<std::uint32_t>(request.first_batch + i),
                      .weight = ranks_.same_stage().weight_of(weight, counts[i]),
                      .index = j,
                      .count = microbatches});
  }
  const PipelineSchedule schedule = schedule_of(options_.pipeline, work.size());
  const std::int64_t start = monotonic_nanoseconds();
  const MicrobatchResults results =
      stage_.run(schedule.stages[groups_.stage()],
                 in_flight(options_.pipeline, work.size(), groups_.stage()), work, [this] {
                   ranks_.same_stage().finish_gradients();
                   shared_.add_gradients(precision_);
                 });
  precision_.round_gradients(own_);
  note_pass(static_cast<double>(monotonic_nanoseconds() - start) * 1e-9, work.size());
  share(results, counts, sums);
  most_held_ = (std::max)(most_held_, stage_.memory().peak);
  std::size_t kept = 0;
  for (const Parameter& parameter : own_) {
    const Gradient gradient = parameter.gradient();
    if (gradient.defined()) kept += gradient.values.bytes();
    if (gradient.sparse()) kept += gradient.rows.bytes();
  }
  most_gradients_ = (std::max)(most_gradients_, kept);
  if (groups_.replica_count() == 1) return sums;
  const ReductionTimes after = ranks_.same_stage().reduction_times();
  sums.reduction = {after.total - before.total, after.waited - before.waited};
  return sums;
}

SOMA_INLINE double PipelineGradients::norm() {
  const Parameters& all = task_.parameters();
  std::vector<double> squares(all.size());
  any_gradient_ = false;
  const auto take = [&](std::span<double> sums) {
    if (options_.shard_optimizer) all_reduce_parts(groups_.replicas(), context_.heap(), sums);
    std::size_t next = 0;
    for (std::size_t i = 0; i < own_.size(); ++i)
      if (own_[i].gradient().defined()) squares[indices_[i]] = sums[next++];
  };
  optim::gradient_norm(context_, own_, take);
  Communicator& pipeline = groups_.pipeline();
  for (int stage = 0; stage < pipeline.size(); ++stage) {
    std::vector<double> part;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (stages_of_[i] == static_cast<std::size_t>(stage)) part.push_back(squares[i]);
    // The last number says if the stage has a gradient at all.
    const bool mine = std::any_of(own_.begin(), own_.end(), [](const Parameter& parameter) {
      return parameter.gradient().defined();
    });
    part.push_back(mine ? 1 : 0);
    broadcast(pipeline, std::as_writable_bytes(std::span(part)), stage);
    any_gradient_ = any_gradient_ || part.back() != 0;
    std::size_t next = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (stages_of_[i] == static_cast<std::size_t>(stage)) squares[i] = part[next++];
  }
  const FloatEnvironment environment;
  double total = 0;
  for (const double square : squares) total += square;
  return std::sqrt(total);
}

SOMA_INLINE void PipelineGradients::stepped() {
  ranks_.same_stage().gather_rows(own_);
  shared_.update();
}

SOMA_INLINE Evaluation PipelineGradients::evaluate(data::BatchSource& source) {
  shared_.update();
  copies_are_old_ = true;
  precision_.set_maximum({});
  Evaluation evaluation = evaluate_batches(source);
  precision_.set_maximum(ranks_.same_stage().maximum());
  return evaluation;
}

SOMA_INLINE const StageMemory& PipelineGradients::memory() const { return stage_.memory(); }

SOMA_INLINE StageTensors PipelineGradients::tensors() {
  const Parameters& all = task_.parameters();
  std::vector<std::size_t> stages = stages_of_;
  stages.resize(all.size());  // before a run begins it is empty
  // The first stage's copies need no message.
  shared_.update();
  for (std::size_t k = 0; k < all.size(); ++k)
    if (shared_.first_has(all[k].var)) stages[k] = 0;
  return StageTensors(context_, groups_, all, stages);
}

SOMA_INLINE data::Batch PipelineGradients::part_of(const data::Batch& batch, std::size_t j,
                                                   std::size_t count) const {
  const std::size_t shards = batch.inputs.sequences.shards();
  const std::size_t parts = count * groups_.replica_count();
  if (parts > shards)
    check_pipeline(options_.pipeline, parts / count * groups_.partitions(), shards);
  const std::size_t each = shards / parts;
  return data::part_of(context_, batch, (groups_.replica() * count + j) * each, each);
}

SOMA_INLINE void PipelineGradients::add_batch(const data::Batch& batch, StepSums& sums) const {
  const Sequences& sequences = batch.inputs.sequences;
  sums.sequences += sequences.count();
  sums.tokens += sequences.used_rows();
  for (std::size_t i = 0; i < sequences.count(); ++i)
    sums.longest = (std::max)(sums.longest, std::uint64_t{sequences.used(i)});
  sums.flops += task_.useful_flops(batch);
}

SOMA_INLINE void PipelineGradients::share(const MicrobatchResults& results,
                                          const std::vector<double>& counts, StepSums& sums) {
  std::uint64_t words[3]{};
  if (groups_.last_stage()) {
    std::vector<BatchLoss> losses;
    for (std::size_t i = 0; i < counts.size(); ++i)
      losses.push_back({results.losses[i].value(), counts[i]});
    std::uint64_t cases[] = {results.classified, results.correct};
    words[0] = std::bit_cast<std::uint64_t>(ranks_.same_stage().total_of(losses));
    ranks_.same_stage().sum(cases);
    words[1] = cases[0];
    words[2] = cases[1];
  }
  broadcast(groups_.pipeline(), std::as_writable_bytes(std::span(words)),
            static_cast<int>(groups_.partitions()) - 1);
  sums.loss = std::bit_cast<double>(words[0]);
  sums.classified = words[1];
  sums.correct = words[2];
}

SOMA_INLINE void PipelineGradients::note_pass(double seconds, std::size_t microbatches) {
  if (microbatches != options_.pipeline.microbatches) return;
  passes_.push_back(seconds);
  if (passes_.size() > most_passes) passes_.erase(passes_.begin());
}

}  // namespace SOMA_NAMESPACE::train
