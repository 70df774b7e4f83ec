// The trainer options that the command line has for both kinds of models.
#pragma once

#include "bert_classifier/train/options.hpp"

#include <soma/train/options.hpp>

class Launch;

// Epochs, weight decay and pipelines are left to the kind. Errors of find_precision and
// find_format; UsageError: an option that the schedule, or the optimizer, does not read.
soma::train::TrainerOptions common_trainer_options(const TrainOptions& options, Launch& launch);
