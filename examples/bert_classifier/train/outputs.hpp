// The outputs of this program's commands.
#pragma once

#include "bert_classifier/train/options.hpp"
#include "bert_classifier/train/rows.hpp"
#include "training/outputs.hpp"

// Errors as of try_run_outputs.
void try_outputs(const TrainOptions& options, bool keeps_checkpoints);
void try_outputs(const EvaluateOptions& options);
void try_outputs(const EmbedOptions& options);

// Error UsageError: an option that has no effect without validation rows.
void check_held_out(const TrainOptions& options, const TrainingRows& rows);
