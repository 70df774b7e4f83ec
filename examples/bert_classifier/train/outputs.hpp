// The outputs of a run, which are tested before anything is read, without leaving traces.
#pragma once

#include "bert_classifier/train/options.hpp"
#include "bert_classifier/train/rows.hpp"

#include <soma/io/checkpoint_folder.hpp>

#include <memory>

// Two runs must not mix: without --resume, a folder with checkpoints is error checkpoint.step.
// Others as of CheckpointFolder.
std::unique_ptr<soma::CheckpointFolder> open_checkpoints(const TrainOptions& options);

// Errors UsageError, file.write; if there are checkpoints already, those of open_checkpoints.
void try_outputs(const TrainOptions& options, bool keeps_checkpoints);
void try_outputs(const EvaluateOptions& options);
void try_outputs(const EmbedOptions& options);

// Error UsageError: an option that has no effect without validation rows.
void check_held_out(const TrainOptions& options, const TrainingRows& rows);
