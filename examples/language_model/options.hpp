// The program's options.
#pragma once

#include "training/run_options.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// How rows become documents.
struct TextOptions {
  std::string divider;
  std::string text_column = "text", prompt_column = "prompt", answer_column = "answer";
  std::size_t length = 0;  // 0: the model's, at most 1,024
};

// Few trained numbers beside the model's own (nn/lora.hpp).
struct LoraCommand {
  std::size_t rank = 0;  // 0: all parameters are trained
  std::optional<float> alpha, dropout;
  std::vector<std::string> targets;
};

struct TrainOptions : RunOptions {
  TextOptions text;
  std::vector<std::string> data, dev;
  std::optional<double> held_out_share;  // empty: none
  std::string model, adapter, trained = "answers";
  LoraCommand lora;
  std::size_t overlap = 0;
  float dropout = -1;
  bool recompute = false;
  std::string save_dtype;       // empty: the folder's
  std::size_t shard_bytes = 0;  // 0: any
};

struct PlanCommand {
  TrainOptions train;
  PlanSettings plan;
};

struct EvaluateOptions {
  ComputeOptions compute;
  TextOptions text;
  std::vector<std::string> data;
  std::string model, adapter, trained = "answers";
  std::size_t stride = 0;  // 0: windows do not overlap
  std::size_t batch_size = 8;
  bool json = false;
};

struct GenerateOptions {
  ComputeOptions compute;
  std::string model, adapter, precision = "fp32", prompt_column = "prompt";
  std::vector<std::string> prompts, files, stop_texts;
  // Empty: the folder's generation_config.json decides.
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::size_t> top_k;
  std::size_t max_new = 0;  // 0: the folder's, or 256
  std::uint64_t seed = 0;
  std::size_t batch_size = 16, part = 512;
  std::size_t memory_limit = 0;  // bytes; 0: any
  bool packed = false, log_probabilities = false, json = false, quiet = false;
};

struct DescribeOptions {
  ComputeOptions compute;
  std::string model, adapter;
};

struct MergeOptions {
  ComputeOptions compute;
  std::string model, adapter, output, save_dtype;  // empty type: the folder's
  std::size_t shard_bytes = 0;                     // 0: any
};

void add_options(CLI::App& command, TrainOptions& options);
void add_options(CLI::App& command, PlanCommand& options);
void add_options(CLI::App& command, EvaluateOptions& options);
void add_options(CLI::App& command, GenerateOptions& options);
void add_options(CLI::App& command, DescribeOptions& options);
void add_options(CLI::App& command, MergeOptions& options);
