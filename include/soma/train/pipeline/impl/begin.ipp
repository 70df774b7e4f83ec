#pragma once
// Begins a run in stages: checks, the assignment of pieces to stages, and the distribution of
// parameters to ranks. After a run: collects the model.

#include <soma/base/number_text.hpp>
#include <soma/train/pipeline/gradients.hpp>

#include <charconv>
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
    if (read->format != formats::fp32 && read->scaling.policy == ScalePolicy::current &&
        read->scaling.granularity == Granularity::tensor)
      refuse("pipeline.microbatches", std::to_string(pipeline.microbatches),
             "1 with precision " + soma::quoted(options_.precision.name) +
                 ", whose scales are those of whole batches");
}

// Rank 0 decides the cuts for all ranks. Errors parallel.plan, train.options (a batch has too few
// shards), file.write.
SOMA_INLINE void PipelineGradients::decide(data::BatchSource& batches) {
  const PipelineOptions& pipeline = options_.pipeline;
  if (ranks_.first() && !decided_) {
    const bool measures = pipeline.cuts.empty() && pipeline.partitions > 1;
    const data::Position position = batches.position();
    data::Batch batch;
    if (measures && batches.next(batch)) {
      PieceProfiler(context_, task_, pieces_, options_)
          .measure(part_of(batch, 0, pipeline.microbatches), plan_.pieces);
      batches.seek(position);
    }
    cut_pieces(plan_, pipeline);
    if (measures) write_decision(pipeline, plan_);
  }
  // Text of a record keeps every digit of its numbers.
  std::vector<std::string> words;
  if (ranks_.first()) {
    for (const std::size_t cut : plan_.cuts) words.push_back(plan_.pieces[cut].name);
    for (const PieceCost& piece : plan_.pieces) {
      words.push_back(to_text(piece.forward_seconds));
      words.push_back(to_text(piece.backward_seconds));
      words.push_back(std::to_string(piece.saved_bytes));
      words.push_back(std::to_string(piece.boundary_bytes));
    }
  }
  words = soma::detail::split(
      soma::detail::broadcast_text(groups_.world(), soma::detail::join(words), 0));
  if (ranks_.first()) return;
  const std::size_t cuts = pipeline.partitions - 1;
  if (words.size() != cuts + 4 * plan_.pieces.size())
    fail(error_id::message_size, "pipeline", "decision of rank 0",
         std::to_string(words.size()) + " words", std::to_string(cuts + 4 * plan_.pieces.size()));
  plan_.cuts =
      cuts_by_name(plan_.pieces, {words.begin(), words.begin() + static_cast<std::ptrdiff_t>(cuts)},
                   pipeline.partitions);
  const auto number = [](const std::string& text) {
    double value = 0;
    number_from(text, value);
    return value;
  };
  for (std::size_t i = 0; i < plan_.pieces.size(); ++i) {
    const std::string* word = &words[cuts + 4 * i];
    plan_.pieces[i].forward_seconds = number(word[0]);
    plan_.pieces[i].backward_seconds = number(word[1]);
    plan_.pieces[i].saved_bytes = soma::detail::count_of(word[2]);
    plan_.pieces[i].boundary_bytes = soma::detail::count_of(word[3]);
  }
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
    for (const Parameter& parameter : own_) {
      const Tensor value = parameter.value();
      if (value.bytes() != 0)
        broadcast_checked(groups_.replicas(), {value.mutable_raw(), value.bytes()}, parameter.name);
    }
  }
  for (std::size_t k = 0; k < all.size(); ++k) {
    const Var& var = all[k].var;
    const bool own = stages_of_[k] == groups_.stage();
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
