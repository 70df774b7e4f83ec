#pragma once
// The functions of ranks.hpp.

#include <soma/train/ranks.hpp>

#include <soma/autograd/parameter.hpp>
#include <soma/data/batch.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/nn/task.hpp>
#include <soma/optim/gradients.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/parallel/gradient_reducer.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/state/checkpoint.hpp>
#include <soma/train/evaluate.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE ReductionTimes Ranks::reduction_times() const { return {}; }

SOMA_INLINE double Ranks::total_of(std::span<const BatchLoss> losses) {
  double total = 0;
  for (const BatchLoss& loss : losses)
    if (loss.count != 0) total += static_cast<double>(loss.value) * loss.count;
  return total;
}

SOMA_INLINE double Ranks::gradient_norm(Context& context, const Parameters& parameters) {
  return optim::gradient_norm(context, parameters);
}

SOMA_INLINE Evaluation Ranks::evaluate(Context& context, nn::Task& task, data::BatchSource& source,
                                       PrecisionState& precision) {
  return train::evaluate(context, task, source, &precision);
}

SOMA_INLINE bool Ranks::load(Context& context, CheckpointStore* store, Which which,
                             Checkpoint& checkpoint) {
  return which == Which::latest ? store->load_latest(context, checkpoint)
                                : store->load_best(context, checkpoint);
}

}  // namespace SOMA_NAMESPACE::train
