#pragma once
// The members of TrainerBase that evaluate and report evaluations to callbacks.

#include <soma/train/stoppable_source.hpp>
#include <soma/train/trainer_base.hpp>

#include <cmath>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::train {

namespace detail {

// The value that best_metric names.
Comparison comparison_of(const Evaluation& evaluation, const std::string& name);

}  // namespace detail

// An exception of a callback is kept until the trained weights are safe.
template <class Call>
void TrainerBase::tell(const Call& call) {
  for (Callback* callback : callbacks_) {
#if SOMA_HAS_EXCEPTIONS
    try {
      call(*callback);
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
#else
    call(*callback);
#endif
  }
}

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/evaluations.ipp>
#endif
