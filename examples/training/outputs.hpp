// The outputs of a run, which are tested before anything is read, without leaving traces.
#pragma once

#include "training/run_options.hpp"

#include <soma/io/checkpoint_folder.hpp>
#include <soma/train/options.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

class Launch;

// An option and its path; empty: not given.
struct Place {
  const char* option;
  std::string path;
};

// Two runs must not mix: without --resume, a folder with checkpoints is error checkpoint.step.
// Others as of CheckpointFolder.
std::unique_ptr<soma::CheckpointFolder> open_checkpoints(const RunOptions& options);
// The store of this rank; nullptr: it needs none.
std::unique_ptr<soma::CheckpointStore> open_checkpoints(
    const RunOptions& options, Launch& launch, const soma::train::TrainerOptions& settings);

// Checks the outputs of a run: those of its options, and the `more` files of its program. No output
// is in --output, or is the same file as another one or as one of `inputs`. Errors UsageError,
// file.write; if there are checkpoints already, those of open_checkpoints.
void try_run_outputs(const RunOptions& options, const std::vector<Place>& more,
                     const std::vector<Place>& inputs, bool keeps_checkpoints);

// An output file must not be another option's output, nor a file of rows. The first `written`
// places are outputs. Error UsageError.
void refuse_same(const std::vector<Place>& places, std::size_t written);
// Error file.write.
void try_whole_file(const char* operation, const std::string& path);

// Error UsageError: an option that has no effect without validation rows. `more`: names of options
// that the program has beside those of every run, and true for those that are given.
void check_validation(const RunOptions& options,
                      const std::vector<std::pair<const char*, bool>>& more = {});
