#pragma once
// The members of TrainerBase that make a run: construction, the loop, and one step.

#include <soma/optim/gradients.hpp>
#include <soma/runtime/usage.hpp>
#include <soma/train/checkpoints.hpp>
#include <soma/train/checks.hpp>
#include <soma/train/evaluations.hpp>
#include <soma/train/stoppable_source.hpp>
#include <soma/train/trainer_base.hpp>

#include <cmath>
#include <exception>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::train {

namespace detail {

// Converts matrices to the type in which the precision stores them.
void give_precision(Context& context, const Parameters& parameters, const Precision& precision);

// The number of steps of the run; 0: not known.
std::uint64_t count_steps(const data::BatchSource& batches, const TrainerOptions& options);

// True if the source stands after the last batch of an epoch, and not yet in the next epoch.
bool at_epoch_end(const data::BatchSource& batches);

void add_step(Report& report, const StepInfo& step);

}  // namespace detail

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/loop.ipp>
#endif
