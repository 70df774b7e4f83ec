// Where a run writes: known to be good before anything is read, without a trace.
#pragma once

#include "bert_classifier/train/options.hpp"
#include "bert_classifier/train/rows.hpp"

#include <soma/io/checkpoint_folder.hpp>

#include <memory>

// Two runs would mix: without --resume, a folder that has checkpoints is error checkpoint.step.
// Others as of CheckpointFolder.
std::unique_ptr<soma::CheckpointFolder> open_checkpoints(const TrainOptions& options);

// Errors UsageError, file.write; where checkpoints are already, those of open_checkpoints.
void try_outputs(const TrainOptions& options, bool keeps_checkpoints);
void try_outputs(const EvaluateOptions& options);

// Error UsageError: an option that would do nothing without held-out rows.
void check_held_out(const TrainOptions& options, const TrainingRows& rows);
