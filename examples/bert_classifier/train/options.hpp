// The program's options.
#pragma once

#include "training/run_options.hpp"

#include <soma/text/data_files.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

struct DataOptions {
  std::string data, dev;
  std::string text_column, label_column;
  std::string text_columns, pair_column;  // columns to join; the second text of pairs
  std::string header = "detect";          // or yes, no
  std::string separator;                  // a name or a character; empty: by the file's extension
  bool multi_label = false;
  std::string label_columns;  // columns of 0 and 1, each of a class
  bool merge_labels = false;
  std::string label_separator;  // a name or a character; empty: the model's, or a comma
  bool skip_bad_rows = false;
  bool regression = false;               // labels are numbers
  std::optional<double> held_out_share;  // empty: a tenth, unless --dev names a file
  soma::text::DataFiles files{};  // the files of a training job; empty: `data` names the files
};

// Settings of --model-kind fast. Numbers below 0, and a 0 of `c`, are the rules' choice.
struct FastTrainOptions {
  double c = 0, strength = -1;
  std::int64_t parts = -1, ngrams = -1, bag_width = -1;
  double keep = 1;  // share of the rows that the folder keeps
};

struct TrainOptions : RunOptions {
  DataOptions data;
  std::string kind = "bert";  // or "fast"
  FastTrainOptions fast;
  std::string pretrained, preset = "tiny";
  std::size_t vocab_size = 0;  // 0: the default of the kind of training
  std::size_t max_length = 0;  // 0: 128, or fewer if a pretrained model has fewer positions
  float dropout = -1;
  bool recompute = false;
  std::string pooling;            // empty: as the pretrained model has it
  std::size_t freeze_layers = 0;  // with the embeddings, if it is not 0
  std::string class_weights;      // "balanced", or a file; empty: all classes have the same weight
  std::string confusion, report;
  double label_noise = 0.02;
  std::size_t reviews = 240000;
  std::size_t stream = 0;         // rows of the buffer; 0: all rows are read at once
  double tune = -1;               // seconds; below 0: no trials
  std::uint64_t tune_passes = 0;  // 0: no limit, but that of `tune`

  bool tunes() const { return tune >= 0 || tune_passes != 0; }
};

// The first option of FastTrainOptions that was given, or nullptr.
const char* first_fast_option(const TrainOptions& options);

struct EvaluateOptions {
  ComputeOptions compute;
  DataOptions data;
  std::vector<std::string> files;  // with rows; replaces data.data
  std::string model, confusion;
  std::size_t batch_size = 32;
  bool json = false;
};

struct PredictOptions {
  ComputeOptions compute;
  std::string model;
  std::vector<std::string> files{"-"};
  bool pairs = false;  // two texts per line
  std::size_t batch_size = 32;
};

struct EmbedOptions {
  ComputeOptions compute;
  std::string model, output, pooling;
  std::vector<std::string> files{"-"};
  bool normalise = false;
  std::size_t max_length = 0, batch_size = 256;
};

struct ServeOptions {
  ComputeOptions compute;
  std::string model, host = "127.0.0.1";
  int port = 8080;
  std::size_t max_body = std::size_t{1} << 20, batch_size = 32, lanes = 1;
  double read_timeout = 5;
};

struct DescribeOptions {
  ComputeOptions compute;
  std::string precision;  // empty: describe the host
};

// A table of layouts for a training with these options.
struct PlanCommand {
  TrainOptions train;
  PlanSettings plan;
};

void add_options(CLI::App& command, TrainOptions& options);
void add_options(CLI::App& command, PlanCommand& options);
void add_options(CLI::App& command, EvaluateOptions& options);
void add_options(CLI::App& command, PredictOptions& options);
void add_options(CLI::App& command, EmbedOptions& options);
void add_options(CLI::App& command, ServeOptions& options);
void add_options(CLI::App& command, DescribeOptions& options);
