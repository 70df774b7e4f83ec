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

struct TrainOptions : RunOptions {
  TextOptions text;
  std::vector<std::string> data, dev;
  std::optional<double> held_out_share;  // empty: none
  std::string model, trained = "answers";
  std::size_t overlap = 0;
  float dropout = -1;
  bool recompute = false;
  std::string save_dtype;       // empty: the folder's
  std::size_t shard_bytes = 0;  // 0: any
};

struct EvaluateOptions {
  ComputeOptions compute;
  TextOptions text;
  std::vector<std::string> data;
  std::string model, trained = "answers";
  std::size_t stride = 0;  // 0: windows do not overlap
  std::size_t batch_size = 8;
  bool json = false;
};

struct GenerateOptions {
  ComputeOptions compute;
  std::string model, precision = "fp32", prompt_column = "prompt";
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
  std::string model;
};

void add_options(CLI::App& command, TrainOptions& options);
void add_options(CLI::App& command, EvaluateOptions& options);
void add_options(CLI::App& command, GenerateOptions& options);
void add_options(CLI::App& command, DescribeOptions& options);
