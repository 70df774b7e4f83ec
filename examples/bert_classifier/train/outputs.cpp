#include "bert_classifier/train/outputs.hpp"

#include "training/arguments.hpp"

#include <soma/models/pretrained.hpp>

#include <string>

void try_outputs(const TrainOptions& options, bool keeps_checkpoints) {
  if (!options.output.empty()) soma::models::check_model_folder("train", options.output);
  try_run_outputs(options, {{"--confusion", options.confusion}, {"--report", options.report}},
                  {{"--data", options.data.data}, {"--dev", options.data.dev}}, keeps_checkpoints);
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
  if (rows.held_out.empty())
    check_validation(options, {{"--confusion", !options.confusion.empty()}});
}
