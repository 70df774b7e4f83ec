// The options of training programs that do not depend on the kind of model.
#pragma once

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

// The options of every training run.
struct RunOptions {
  ComputeOptions compute;
  RankOptions ranks;
  std::uint64_t epochs = 0, max_steps = 0;  // 0 epochs: the default of the kind of training
  std::size_t batch_size = 32, batch_tokens = 0, accumulate = 1, shards = 8;
  double learning_rate = -1;  // below 0: the default of the kind of training
  std::string schedule = "linear";
  ScheduleOptions schedule_options;
  std::int64_t warmup_steps = -1;  // below 0: the default of the kind of training
  OptimizerOptions optimizer;
  std::optional<double> weight_decay;  // empty: the default of the optimizer
  double clip = 1;
  bool step_early = false;
  AverageWeights average;
  bool decay_all = false, no_shuffle = false;
  std::uint64_t seed = 1;
  std::string precision;  // empty: fp32, or a rule of the program
  std::uint64_t evaluate_every = 0, patience = 0;
  bool keep_best = false;
  std::string metric = "loss";
  std::string checkpoint;
  std::uint64_t checkpoint_every = 0;
  std::size_t keep_checkpoints = 3;
  bool resume = false;
  std::string tensorboard, log_json, profile, output, plot;
  double price_per_hour = 0;
  bool quiet = false, publish = false;

  // Leaves out all outputs, for ranks other than 0.
  void silence();
};

// The help texts of these options that differ between programs.
struct RunWords {
  const char* epochs;
  const char* batch_size;
  const char* learning_rate;
  const char* warmup;
  const char* metric;
  std::vector<std::string> metrics;  // accepted by --metric
  const char* precision;
  const char* memory_limit;
  const char* plot;
};

void add_compute(CLI::App& command, ComputeOptions& options);
// Options of the loop, of ranks and of the formats.
void add_loop(CLI::App& command, RunOptions& options, const RunWords& words);
// Options of files that a run writes.
void add_outputs(CLI::App& command, RunOptions& options, const RunWords& words);

// The options of a plan beside those of its training.
struct PlanSettings {
  std::size_t ranks = 1;
  bool json = false;
};

void add_plan(CLI::App& command, PlanSettings& settings);
