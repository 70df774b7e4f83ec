// The trainer options that the command line has for every kind of model.
#pragma once

#include "training/run_options.hpp"

#include <soma/data/batch_options.hpp>
#include <soma/train/options.hpp>

#include <cstdint>

class Launch;

// Epochs and weight decay are left to the kind. Errors of find_precision and find_format;
// UsageError: an option that the schedule, or the optimizer, does not read.
soma::train::TrainerOptions common_trainer_options(const RunOptions& options, Launch& launch);

soma::data::BatchOptions batch_options(const RunOptions& options);

// The steps of a run with so many batches in an epoch; 0: not known.
std::uint64_t run_steps(std::uint64_t batches, const soma::train::TrainerOptions& settings);
