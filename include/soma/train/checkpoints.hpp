#pragma once
// The members of TrainerBase that save a run, and that resume a saved run.

#include <soma/state/operators.hpp>
#include <soma/train/evaluations.hpp>
#include <soma/train/identity.hpp>
#include <soma/train/trainer_base.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::train {

#if SOMA_HAS_EXCEPTIONS
// Saves the last whole step after a stop during which other ranks did not answer: every rank has
// the whole state, unless ranks share the optimizer's states or have a stage each. The error that
// ended the run stays the one that is reported.
inline void TrainerBase::save_alone(const data::BatchSource& batches,
                                    const std::exception& reason) noexcept {
  const auto* known = dynamic_cast<const Error*>(&reason);
  if (known == nullptr || known->id() != error_id::stopped || !between_steps_ || !has_store_ ||
      !ranks_->first() || ranks_->saves_parts() || saved_at_ == progress_.step)
    return;
  try {
    options_.checkpoints->save(progress_.step, checkpoint_of(batches));
  } catch (const std::exception& error) {
    context_.log(LogLevel::error, error.what());
  }
}
#endif

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/checkpoints.ipp>
#endif
