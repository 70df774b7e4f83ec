#include "bert_classifier/train/outputs.hpp"

#include "bert_classifier/arguments.hpp"

#include <soma/io/append_file.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/models/pretrained.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace {

struct Place {
  const char* option;
  const std::string& path;  // empty: not given
};

// The path without links, and without a final /; empty if the path cannot be resolved, which is an
// error for the code that writes there.
std::filesystem::path resolved(const std::string& path) {
  std::error_code problem;
  std::filesystem::path found =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path, problem), problem);
  return found.has_filename() ? found : found.parent_path();
}

// A model's folder is replaced as a whole: no other output may be inside of it.
void refuse_inside_output(const TrainOptions& options) {
  if (options.output.empty()) return;
  const std::filesystem::path model = resolved(options.output);
  for (const auto& [name, path] : {Place{"--checkpoint", options.checkpoint},
                                   {"--log-json", options.log_json},
                                   {"--tensorboard", options.tensorboard},
                                   {"--confusion", options.confusion},
                                   {"--plot", options.plot},
                                   {"--report", options.report},
                                   {"--profile", options.profile}}) {
    if (path.empty() || model.empty()) continue;
    const std::filesystem::path other = resolved(path);
    const auto same = std::mismatch(model.begin(), model.end(), other.begin(), other.end());
    if (same.first == model.end())
      throw UsageError(std::string(name) + " " + soma::quoted(path) + " is in --output " +
                       soma::quoted(options.output) + ", which the model replaces in whole");
  }
}

// An output file must not be another option's output, nor a file of rows. The first `written`
// places are outputs.
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

std::unique_ptr<soma::CheckpointFolder> open_checkpoints(const TrainOptions& options) {
  auto folder = std::make_unique<soma::CheckpointFolder>(
      options.checkpoint, soma::CheckpointFolderOptions{.keep = options.keep_checkpoints});
  if (const auto newest = folder->newest(); !options.resume && newest)
    soma::fail(soma::error_id::checkpoint_step, "train", "--checkpoint",
               soma::quoted(options.checkpoint) + ", which has a checkpoint of step " +
                   std::to_string(*newest),
               "--resume to go on from it, or another folder");
  return folder;
}

void try_outputs(const TrainOptions& options, bool keeps_checkpoints) {
  refuse_inside_output(options);
  refuse_same({{"--log-json", options.log_json},
               {"--confusion", options.confusion},
               {"--profile", options.profile},
               {"--plot", options.plot},
               {"--report", options.report},
               {"--checkpoint", options.checkpoint},
               {"--tensorboard", options.tensorboard},
               {"--data", options.data.data},
               {"--dev", options.data.dev}},
              5);
  if (!options.output.empty()) soma::models::check_model_folder("train", options.output);
  try_whole_file("train", options.confusion);
  try_whole_file("train", options.profile);
  try_whole_file("train", options.plot);
  try_whole_file("train", options.report);
  try_growing_file("train", options.log_json);
  try_folder("train", options.tensorboard);
  if (options.checkpoint.empty() || !keeps_checkpoints) return;
  std::error_code problem;
  if (std::filesystem::exists(options.checkpoint + "/lock", problem))
    open_checkpoints(options);
  else
    try_folder("train", options.checkpoint);
}

void try_outputs(const EvaluateOptions& options) {
  for (const std::string& file : options.files)
    refuse_same({{"--confusion", options.confusion}, {"--data", file}}, 1);
  try_whole_file("evaluate", options.confusion);
}

void try_outputs(const EmbedOptions& options) {
  for (const std::string& file : options.files)
    refuse_same({{"--output", options.output}, {"file", file}}, 1);
  try_whole_file("embed", options.output);
}

void check_held_out(const TrainOptions& options, const TrainingRows& rows) {
  if (!rows.held_out.empty()) return;
  for (const auto& [name, given] : {std::pair("--keep-best", options.keep_best),
                                    {"--patience", options.patience != 0},
                                    {"--evaluate-every", options.evaluate_every != 0},
                                    {"--metric", options.metric != "loss"},
                                    {"--confusion", !options.confusion.empty()}})
    if (given)
      throw UsageError(std::string(name) +
                       " needs held-out rows, and there are none: is --dev missing?");
}
