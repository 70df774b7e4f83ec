#pragma once
// Checks of a run's options before anything is computed.

#include <soma/train/evaluate.hpp>
#include <soma/train/options.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::train {

// The schedule of a run, with the learning rate of the options or of the task. Error train.options.
optim::Schedule schedule_of(const nn::Task& task, const TrainerOptions& options);

// Names that TrainerOptions::best_metric may have.
std::string metric_names(const nn::Task& task);

// Error train.options.
void check_options(const nn::Task& task, const TrainerOptions& options, bool first);
// The same for TrainerOptions::step_early, in a run of so many ranks.
void check_early(const TrainerOptions& options, int ranks);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/checks.ipp>
#endif
