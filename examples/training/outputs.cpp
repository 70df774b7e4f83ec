#include "training/outputs.hpp"

#include "training/arguments.hpp"
#include "training/launch/launch.hpp"

#include <soma/io/append_file.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/checkpoint_part_folder.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace {

// The path without links, and without a final /; empty if the path cannot be resolved, which is an
// error for the code that writes there.
std::filesystem::path resolved(const std::string& path) {
  std::error_code problem;
  std::filesystem::path found =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path, problem), problem);
  return found.has_filename() ? found : found.parent_path();
}

// A model's folder is replaced as a whole: no other output may be inside of it.
void refuse_inside_output(const RunOptions& options, const std::vector<Place>& outputs) {
  if (options.output.empty()) return;
  const std::filesystem::path model = resolved(options.output);
  for (const auto& [name, path] : outputs) {
    if (path.empty() || model.empty()) continue;
    const std::filesystem::path other = resolved(path);
    const auto same = std::mismatch(model.begin(), model.end(), other.begin(), other.end());
    if (same.first == model.end())
      throw UsageError(std::string(name) + " " + soma::quoted(path) + " is in --output " +
                       soma::quoted(options.output) + ", which the model replaces in whole");
  }
}

// A growing file need not be in a folder where other files can be made.
void try_growing_file(const char* operation, const std::string& path) {
  std::error_code problem;
  if (!path.empty() && std::filesystem::exists(path, problem))
    const soma::AppendFile file(operation, path, soma::ExistingFile::append);
  else
    try_whole_file(operation, path);
}

// Tests if the folder can be made, or files in it.
void try_folder(const char* operation, const std::string& path) {
  if (path.empty()) return;
  std::filesystem::path there = path;
  std::error_code problem;
  while (!there.empty() && !std::filesystem::exists(there, problem)) there = there.parent_path();
  try_whole_file(operation, soma::partial_name((there / "try").string()));
}

}  // namespace

void refuse_same(const std::vector<Place>& places, std::size_t written) {
  for (std::size_t i = 0; i < written; ++i)
    for (std::size_t j = i + 1; j < places.size(); ++j) {
      const auto& [name, path] = places[i];
      const auto& [other_name, other] = places[j];
      if (path.empty() || other.empty()) continue;
      const std::filesystem::path place = resolved(path);
      std::error_code problem;  // ignored: files need not exist
      if ((!place.empty() && place == resolved(other)) ||
          std::filesystem::equivalent(path, other, problem))
        throw UsageError(std::string(name) + " " + soma::quoted(path) + " is the same file as " +
                         other_name + " " + soma::quoted(other));
    }
}

void try_whole_file(const char* operation, const std::string& path) {
  if (!path.empty()) const soma::AtomicFile file(operation, path);
}

std::unique_ptr<soma::CheckpointFolder> open_checkpoints(const RunOptions& options) {
  auto folder = std::make_unique<soma::CheckpointFolder>(
      options.checkpoint, soma::CheckpointFolderOptions{.keep = options.keep_checkpoints});
  if (const auto newest = folder->newest(); !options.resume && newest)
    soma::fail(soma::error_id::checkpoint_step, "train", "--checkpoint",
               soma::quoted(options.checkpoint) + ", which has a checkpoint of step " +
                   std::to_string(*newest),
               "--resume to go on from it, or another folder");
  return folder;
}

std::unique_ptr<soma::CheckpointStore> open_checkpoints(
    const RunOptions& options, Launch& launch, const soma::train::TrainerOptions& settings) {
  if (options.checkpoint.empty()) return nullptr;
  if (launch.rank() == 0) return open_checkpoints(options);
  // Other ranks read rank 0's checkpoints, unless they write parts.
  if (!settings.shard_optimizer && settings.pipeline.partitions == 1) return nullptr;
  return std::make_unique<soma::CheckpointPartFolder>(options.checkpoint);
}

void try_run_outputs(const RunOptions& options, const std::vector<Place>& more,
                     const std::vector<Place>& inputs, bool keeps_checkpoints) {
  std::vector<Place> places{{"--log-json", options.log_json},
                            {"--profile", options.profile},
                            {"--plot", options.plot},
                            {"--checkpoint", options.checkpoint},
                            {"--tensorboard", options.tensorboard}};
  places.insert(places.end(), more.begin(), more.end());
  refuse_inside_output(options, places);
  const std::size_t written = places.size();
  places.insert(places.end(), inputs.begin(), inputs.end());
  refuse_same(places, written);
  for (const Place& place : more) try_whole_file("train", place.path);
  try_whole_file("train", options.profile);
  try_whole_file("train", options.plot);
  try_growing_file("train", options.log_json);
  try_folder("train", options.tensorboard);
  if (options.checkpoint.empty() || !keeps_checkpoints) return;
  std::error_code problem;
  if (std::filesystem::exists(options.checkpoint + "/lock", problem))
    open_checkpoints(options);
  else
    try_folder("train", options.checkpoint);
}

void check_validation(const RunOptions& options,
                      const std::vector<std::pair<const char*, bool>>& more) {
  std::vector<std::pair<const char*, bool>> all{{"--keep-best", options.keep_best},
                                                {"--patience", options.patience != 0},
                                                {"--evaluate-every", options.evaluate_every != 0},
                                                {"--metric", options.metric != "loss"}};
  all.insert(all.end(), more.begin(), more.end());
  for (const auto& [name, given] : all)
    if (given)
      throw UsageError(std::string(name) +
                       " needs held-out rows, and there are none: is --dev missing?");
}
