#pragma once
// The functions of trainer_base.hpp.

#include <soma/train/trainer_base.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <soma/optim/adamw.hpp>
#include <soma/optim/loss_scaler.hpp>
#include <soma/train/best_weights.hpp>
#include <soma/train/events.hpp>
#include <soma/train/many_ranks.hpp>
#include <soma/train/options.hpp>
#include <soma/train/progress.hpp>
#include <soma/train/stop_flag.hpp>
#include <soma/train/tape_gradients.hpp>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void TrainerBase::add(Callback& callback) { callbacks_.push_back(&callback); }

SOMA_INLINE const Parameters& TrainerBase::parameters() const { return gradients_->parameters(); }

SOMA_INLINE bool TrainerBase::stoppable() const {
  return options_.gradients == nullptr || ranks_->count() == 1;
}

}  // namespace SOMA_NAMESPACE::train
