#pragma once
// BestWeights: the weights with the best evaluation so far, in the store of checkpoints if there is
// one, else in memory.

#include <soma/nn/state.hpp>
#include <soma/state/operators.hpp>
#include <soma/train/progress.hpp>
#include <soma/train/ranks.hpp>

#include <optional>

namespace soma::train {

class BestWeights {
 public:
  // `in_store`: rank 0 has a store; `store` is this rank's own, or nullptr.
  void begin(CheckpointStore* store, bool in_store) {
    store_ = store;
    in_store_ = in_store;
    kept_ = StateDict();
  }

  void keep(Context& context, Ranks& ranks, const Parameters& parameters,
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

  // Copies the best weights into the parameters. Without best weights the parameters stay.
  void load(Context& context, Ranks& ranks, const Parameters& parameters) {
    if (!in_store_) {
      if (!kept_.empty()) nn::load(parameters, kept_);
      return;
    }
    Checkpoint best;
    if (ranks.load(context, store_, Ranks::Which::best, best)) nn::load(parameters, best.weights);
  }

 private:
  CheckpointStore* store_ = nullptr;
  bool in_store_ = false;
  StateDict kept_{};
};

}  // namespace soma::train
