#pragma once
// The functions of best_weights.hpp.

#include <soma/train/best_weights.hpp>

#include <soma/nn/state.hpp>
#include <soma/state/operators.hpp>
#include <soma/train/progress.hpp>
#include <soma/train/ranks.hpp>

#include <optional>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void BestWeights::begin(CheckpointStore* store, bool in_store) {
  store_ = store;
  in_store_ = in_store;
  kept_ = StateDict();
}

SOMA_INLINE void BestWeights::keep(Context& context, Ranks& ranks, const Parameters& parameters,
                                   const Progress& progress) {
  if (!in_store_) {
    kept_ = StateDict();
    for (const auto& [name, tensor] : nn::state_dict(parameters))
      kept_.set(name, clone(context, tensor));
    return;
  }
  Checkpoint best;
  best.weights = nn::state_dict(parameters);
  best.progress.set("step", progress.step);
  best.progress.set("score", progress.best);
  set_operators(best.progress, context);
  ranks.save_parts(store_, std::nullopt, best);
  if (ranks.first()) store_->save_best(best);
  ranks.barrier();
}

SOMA_INLINE void BestWeights::load(Context& context, Ranks& ranks, const Parameters& parameters) {
  if (!in_store_) {
    if (!kept_.empty()) nn::load(parameters, kept_);
    return;
  }
  Checkpoint best;
  if (ranks.load(context, store_, Ranks::Which::best, best)) nn::load(parameters, best.weights);
}

}  // namespace SOMA_NAMESPACE::train
