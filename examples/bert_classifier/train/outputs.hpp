// Checks all outputs of a run before rows are read, and leaves no trace.
#pragma once

#include "bert_classifier/train/options.hpp"
#include "bert_classifier/train/rows.hpp"

#include <soma/io/checkpoint_folder.hpp>

#include <memory>

// Opens the folder of checkpoints. Without --resume, a folder that has checkpoints is error
// checkpoint.step, because two runs would mix. Other errors are those of CheckpointFolder.
std::unique_ptr<soma::CheckpointFolder> open_checkpoints(const TrainOptions& options);

// Errors UsageError, file.write and, for checkpoints, the errors of open_checkpoints.
void try_outputs(const TrainOptions& options, bool keeps_checkpoints);
void try_outputs(const EvaluateOptions& options);

// Error UsageError: an option needs held-out rows, and there are none.
void check_held_out(const TrainOptions& options, const TrainingRows& rows);
