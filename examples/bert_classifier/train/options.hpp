// The program's options.
#pragma once

#include <soma/text/data_files.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

struct ComputeOptions {
  std::string math = "fast", device = "host", run_mode = "eager";
  bool predict = false;
  int threads = 0;
};

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

// Options of a training with several ranks.
struct RankOptions {
  std::size_t bucket_bytes = std::size_t{4} << 20;
  bool no_overlap = false, shard_optimizer = false;
  std::string reduction;         // empty: the format of the precision
  std::string partitions = "1";  // or auto
  std::size_t microbatches = 1;
  std::uint64_t memory_limit = 0;  // bytes of a rank's process
  double network = 0;              // bytes a second
  std::string pipeline = "interleaved", optimize = "memory", placement = "cluster";
  std::string partition_file;
  std::vector<std::string> cuts;
  double time_limit = 600;  // seconds

  bool automatic() const { return partitions == "auto"; }
  bool has_pipeline() const { return partitions != "1" || microbatches != 1 || memory_limit != 0; }
};

// Each is read by some schedules only; where it is not given, the library's default counts.
struct ScheduleOptions {
  std::optional<double> factor, threshold, final_ratio, start_ratio;
  std::optional<std::uint64_t> every, patience, growth;
  std::vector<std::uint64_t> milestones;
};

// `name` as the optimizer describes itself. The others are read by some optimizers only; where one
// is not given, the library's default counts.
struct OptimizerOptions {
  std::string name = "adamw";
  std::optional<double> beta1, beta2, epsilon;                         // adamw, adam, lamb ...
  std::optional<double> momentum, dampening, alpha;                    // sgd, rmsprop
  std::optional<double> rho;                                           // adadelta
  std::optional<double> rate_decay, initial_square;                    // adagrad
  std::optional<double> beta2_decay, floor, least_scale, update_clip;  // adafactor
  bool nesterov = false;                                               // sgd
};

// The average of weights; without a decay there is none.
struct AverageWeights {
  std::optional<double> decay;
  std::optional<std::uint64_t> from, every;
};

// Settings of --model-kind fast. Numbers below 0, and a 0 of `c`, are the rules' choice.
struct FastTrainOptions {
  double c = 0, strength = -1;
  std::int64_t parts = -1, ngrams = -1, bag_width = -1;
  double keep = 1;  // share of the rows that the folder keeps
};

struct TrainOptions {
  ComputeOptions compute;
  RankOptions ranks;
  DataOptions data;
  std::string kind = "bert";  // or "fast"
  FastTrainOptions fast;
  std::string pretrained, preset = "tiny";
  std::size_t vocab_size = 0;               // 0: the default of the kind of training
  std::uint64_t epochs = 0, max_steps = 0;  // 0 epochs: the default of the kind of training
  std::size_t batch_size = 32, batch_tokens = 0, accumulate = 1, shards = 8;
  std::size_t max_length = 0;  // 0: 128, or fewer if a pretrained model has fewer positions
  double learning_rate = -1;   // below 0: the default of the kind of training
  std::string schedule = "linear";
  ScheduleOptions schedule_options;
  std::int64_t warmup_steps = -1;  // below 0: the default of the kind of training
  OptimizerOptions optimizer;
  std::optional<double> weight_decay;  // empty: the default of the optimizer
  double clip = 1;
  AverageWeights average;
  bool decay_all = false, no_shuffle = false;
  float dropout = -1;
  bool recompute = false;
  std::string pooling;            // empty: as the pretrained model has it
  std::size_t freeze_layers = 0;  // with the embeddings, if it is not 0
  std::uint64_t seed = 1;
  std::string precision;  // empty: fp32; in folders of the fast kind 8 bits
  std::uint64_t evaluate_every = 0, patience = 0;
  bool keep_best = false;
  std::string metric = "loss";
  std::string class_weights;  // "balanced", or a file; empty: all classes have the same weight
  std::string checkpoint;
  std::uint64_t checkpoint_every = 0;
  std::size_t keep_checkpoints = 3;
  bool resume = false;
  double tune = -1;               // seconds; below 0: no trials
  std::uint64_t tune_passes = 0;  // 0: no limit, but that of `tune`
  std::string tensorboard, log_json, profile, output, confusion;
  double price_per_hour = 0;
  double label_noise = 0.02;
  std::size_t reviews = 240000;
  std::size_t stream = 0;  // rows of the buffer; 0: all rows are read at once
  bool quiet = false, publish = false;
  std::string plot, report;

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
  std::size_t ranks = 1;
  bool json = false;
};

void add_options(CLI::App& command, TrainOptions& options);
void add_options(CLI::App& command, PlanCommand& options);
void add_options(CLI::App& command, EvaluateOptions& options);
void add_options(CLI::App& command, PredictOptions& options);
void add_options(CLI::App& command, EmbedOptions& options);
void add_options(CLI::App& command, ServeOptions& options);
void add_options(CLI::App& command, DescribeOptions& options);
