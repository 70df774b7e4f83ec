#pragma once
// BestWeights: the weights with the best evaluation so far, in the store of checkpoints if there is
// one, else in memory.

#include <soma/nn/state.hpp>
#include <soma/state/operators.hpp>
#include <soma/train/progress.hpp>
#include <soma/train/ranks.hpp>

#include <optional>

namespace SOMA_NAMESPACE::train {

class BestWeights {
 public:
  // `in_store`: rank 0 has a store; `store` is this rank's own, or nullptr.
  void begin(CheckpointStore* store, bool in_store);

  void keep(Context& context, Ranks& ranks, const Parameters& parameters, const Progress& progress);

  // Copies the best weights into the parameters. Without best weights the parameters stay.
  void load(Context& context, Ranks& ranks, const Parameters& parameters);

 private:
  CheckpointStore* store_ = nullptr;
  bool in_store_ = false;
  StateDict kept_{};
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/best_weights.ipp>
#endif
