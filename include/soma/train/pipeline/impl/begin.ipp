#pragma once
// Begins a run in stages: checks, the assignment of pieces to stages, and the distribution of
// parameters to ranks. After a run: collects the model.

#include <soma/io/record_json.hpp>
#include <soma/nn/later.hpp>
#include <soma/train/pipeline/gradients.hpp>
#include <soma/train/pipeline/plan_costs.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::train {

// Runs before data are read. Error train.options.
SOMA_INLINE void PipelineGradients::check() const {
  const PipelineOptions& pipeline = options_.pipeline;
  const auto refuse = [](std::string_view name, const std::string& given,
                         const std::string& wanted) {
    fail(error_id::train_options, "PipelineTrainer", name, given, wanted);
  };
  if (options_.gradients != nullptr)
    refuse("gradients", "given", "none beside a pipeline, which makes them");
  if (options_.step_early)
    refuse("step_early", "true, with a pipeline", "a trainer without stages and micro-batches");
  std::size_t apart = 0;
  for (const PieceCost& piece : plan_.pieces) apart += piece.joined ? 0 : 1;
  if (pipeline.partitions > apart)
    refuse("pipeline.partitions", std::to_string(pipeline.partitions),
           "at most " + std::to_string(apart) + ", the pieces of the task that can be apart");
  if (!pipeline.cuts.empty()) cuts_by_name(plan_.pieces, pipeline.cuts, pipeline.partitions);
  if (pipeline.microbatches == 1) return;
  for (const nn::Piece& piece : pieces_)
    if (piece.mixes_sequences)
      refuse("pipeline.microbatches", std::to_string(pipeline.microbatches),
             "1: in training " + soma::quoted(piece.name) + " mixes the sequences of a batch");
  for (const Quantizer* read :
       {&options_.precision.gemm_activations, &options_.precision.gemm_gradients})
    if (read->format != formats::fp32 && read->scaling.reads_whole_tensor())
      refuse("pipeline.microbatches", std::to_string(pipeline.microbatches),
             "1 with precision " + soma::quoted(options_.precision.name) +
                 ", whose scales are those of whole batches");
}

// Rank 0 measures, or takes the decision of the file, and chooses the cuts. Errors parallel.plan,
// train.options (a batch has too few shards), file.write.
SOMA_INLINE void PipelineGradients::choose_cuts(data::BatchSource& batches, double network) {
  const PipelineOptions& pipeline = options_.pipeline;
  if (!pipeline.cuts.empty()) {
    plan_.cuts = cuts_by_name(plan_.pieces, pipeline.cuts, pipeline.partitions);
    return;
  }
  if (pipeline.partitions == 1 && pipeline.memory_limit == 0) return;
  const std::size_t replicas = groups_.replica_count();
  const BatchSizes sizes = read_batch_sizes(context_, batches, batches_to_read(options_, batches));
  check_pipeline(pipeline, replicas * pipeline.partitions, sizes.shards);
  std::uint64_t moments = 0;
  for (const Parameter& parameter : task_.parameters())
    moments += memory_of(parameter, options_).moments;
  const Record basis = decision_basis(options_, task_, sizes, replicas, moments);
  if (decision_) {
    const std::string difference = difference_of(*decision_, basis);
    if (difference.empty()) {
      for (std::size_t i = 0; i < pipeline.partitions; ++i)
        estimates_.push_back(estimate_from_record(*decision_, "stage." + std::to_string(i) + "."));
      return;
    }
    context_.log(LogLevel::warning, "PipelineTrainer: " + decision_->purpose() + " was made for " +
                                        difference + ": it is made anew");
  }
  const std::size_t parts = pipeline.microbatches * replicas;
  const PlanCosts costs =
      measure_costs(context_, task_, pieces_, options_, plan_.pieces, sizes, batches,
                    {.timed = {parts}, .others = parts_up_to(parts), .network = network});
  const PlanLayout layout{.partitions = pipeline.partitions,
                          .replicas = replicas,
                          .microbatches = pipeline.microbatches,
                          .schedule = pipeline.schedule,
                          .optimize = pipeline.optimize,
                          .recompute = task_.recomputes(),
                          .shard_optimizer = options_.shard_optimizer,
                          .in_stages = true};
  plan_.cuts = costs.choose(layout, pipeline.memory_limit);
  plan_.pieces = costs.costs(layout);
  estimates_ = costs.stages(layout, plan_.cuts);
  write_decision(pipeline, decision_record(plan_, basis, estimates_));
}

// Bytes a second between the first two ranks, the best of some messages; 0: nothing was sent.
SOMA_INLINE double PipelineGradients::network_rate() {
  const PipelineOptions& pipeline = options_.pipeline;
  if (pipeline.network != 0) return pipeline.network;
  Communicator& world = groups_.world();
  if (!pipeline.cuts.empty() || pipeline.optimize != Optimize::speed || world.size() < 2) return 0;
  constexpr std::size_t bytes = std::size_t{1} << 18;
  constexpr int times = 4;
  const Tensor buffer = Tensor::zeros(context_, Shape{bytes}, DType::uint8);
  double best = 0;
  for (int i = 0; i < times && world.rank() < 2; ++i) {
    const std::int64_t start = monotonic_nanoseconds();
    for (const int sender : {0, 1}) {
      if (world.rank() == sender)
        world.send(1 - sender, collective_tag, {buffer.raw(), bytes});
      else
        world.receive(1 - world.rank(), collective_tag, {buffer.mutable_raw(), bytes});
    }
    const auto nanoseconds = static_cast<double>(monotonic_nanoseconds() - start + 1);
    best = (std::max)(best, 2 * static_cast<double>(bytes) / nanoseconds * 1e9);
  }
  return best;
}

// Rank 0 decides for all ranks.
SOMA_INLINE void PipelineGradients::decide(data::BatchSource& batches) {
  const PipelineOptions& pipeline = options_.pipeline;
  const double network = network_rate();
  if (ranks_.first()) choose_cuts(batches, network);
  // Text of a record keeps every digit of its numbers.
  Record record("decision of rank 0");
  if (ranks_.first()) {
    record = to_record(plan_);
    record.set("estimates", std::uint64_t{estimates_.size()});
    for (std::size_t i = 0; i < estimates_.size(); ++i)
      add_to_record(record, "stage." + std::to_string(i) + ".", estimates_[i]);
  }
  const std::string text = soma::detail::broadcast_text(
      groups_.world(), ranks_.first() ? to_json(record) : std::string(), 0);
  if (!ranks_.first()) {
    record = record_from_json(text, "decision of rank 0");
    plan_ = plan_from_record(record, plan_);
    const std::uint64_t count = record.count("estimates");
    for (std::size_t i = 0; i < pipeline.partitions && i < count; ++i)
      estimates_.push_back(estimate_from_record(record, "stage." + std::to_string(i) + "."));
  }
  if (pipeline.memory_limit != 0 && !estimates_.empty())
    reserve(context_, estimates_[groups_.stage()]);
}

// This stage's parameters, in the model's order.
SOMA_INLINE void PipelineGradients::take_stage() {
  const Parameters& all = task_.parameters();
  stages_of_.assign(all.size(), 0);
  for (std::size_t stage = 0; stage < plan_.partitions && !pieces_.empty(); ++stage)
    for (std::size_t i = plan_.first_piece(stage); i < plan_.end_piece(stage); ++i)
      for (const Parameter& parameter : pieces_[i].parameters)
        for (std::size_t k = 0; k < all.size(); ++k)
          if (all[k].name == parameter.name) stages_of_[k] = stage;
  shared_.set(pieces_, plan_);
  for (std::size_t k = 0; k < all.size(); ++k)
    stages_of_[k] = shared_.owner_of(all[k].var, stages_of_[k]);
  own_.clear();
  for (std::size_t k = 0; k < all.size(); ++k)
    if (stages_of_[k] == groups_.stage()) {
      own_.push_back(all[k]);
      indices_.push_back(k);
    }
  ranks_.set_own(all, own_);
  if (pieces_.empty()) return;
  const std::size_t first = plan_.first_piece(groups_.stage());
  stage_.set_pieces(std::span(pieces_).subspan(first, plan_.end_piece(groups_.stage()) - first));
}

// Sends rank 0's values to the ranks that need them. Each rank makes postponed parameters itself,
// and replicas compare them. Drops the parameters of other stages. Error parallel.mismatch.
SOMA_INLINE void PipelineGradients::distribute() {
  const Parameters& all = task_.parameters();
  const bool made = options_.pipeline.later == nullptr;
  if (!made) {
    options_.pipeline.later->make(context_, own_);
    options_.pipeline.later->make(context_, shared_.copies());
    for (const Parameter& parameter : own_) {
      const Tensor value = parameter.value();
      if (value.bytes() != 0)
        broadcast_checked(groups_.replicas(), {value.mutable_raw(), value.bytes()}, parameter.name);
    }
  }
  for (std::size_t k = 0; k < all.size(); ++k) {
    const Var& var = all[k].var;
    const bool own = stages_of_[k] == groups_.stage() || shared_.has_copy(var);
    if (made) {
      // A second run starts from the values of each stage.
      const int root = began_ ? groups_.first_of(stages_of_[k]) : 0;
      if (!var.value().defined())
        var.set_value(Tensor::empty(context_, var.shape(), var.value().dtype()));
      const Tensor value = all[k].value();
      if (value.bytes() != 0)
        broadcast_checked(groups_.world(), {value.mutable_raw(), value.bytes()}, all[k].name, root);
    }
    if (!own && var.value().defined()) drop_unless_shared(k);
  }
  began_ = true;
}

// Parameters may be rows of one variable: the variable is dropped with the last of them, because
// all of them belong to one stage.
SOMA_INLINE void PipelineGradients::drop_unless_shared(std::size_t k) const {
  const Parameters& all = task_.parameters();
  for (std::size_t i = k + 1; i < all.size(); ++i)
    if (all[i].var.is(all[k].var)) return;
  all[k].var.drop_value();
}

SOMA_INLINE void PipelineGradients::gather(bool to_all) {
  if (!planned_) return;
  const Parameters& all = task_.parameters();
  for (std::size_t k = 0; k < all.size(); ++k) {
    const int root = groups_.first_of(stages_of_[k]);
    const int rank = groups_.world().rank();
    if (!to_all && rank != 0 && rank != root) continue;
    const Var& var = all[k].var;
    if (!var.value().defined())
      var.set_value(Tensor::empty(context_, var.shape(), var.value().dtype()));
    const Tensor value = all[k].value();
    if (value.bytes() == 0) continue;
    if (to_all)
      broadcast(groups_.world(), {value.mutable_raw(), value.bytes()}, root);
    else if (rank == root && root != 0)
      groups_.world().send(0, collective_tag, {value.raw(), value.bytes()});
    else if (root != 0)
      groups_.world().receive(root, collective_tag, {value.mutable_raw(), value.bytes()});
  }
}

}  // namespace SOMA_NAMESPACE::train
