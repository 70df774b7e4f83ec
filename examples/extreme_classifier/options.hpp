// The options and commands of extreme_classifier. Each command returns the program's exit code.
#pragma once

#include "tuning/trials.hpp"

#include <soma/data/point_source.hpp>
#include <soma/metrics/ranking.hpp>
#include <soma/models/extreme_classifier.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/system/clock.hpp>
#include <soma/text/counted_features.hpp>
#include <soma/text/xmc_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// SIGINT and SIGTERM set this flag.
inline soma::StopFlag stop_requested;

// How rows of texts are read; empty: found by looking at the file.
struct TextOptions {
  bool multi_label = false;  // rows have several labels, or none
  std::string header = "detect", text_column, label_column;
};

struct TrainOptions {
  std::string data, test;  // XMC files; without data, points are generated
  std::size_t classes = 50000, features = 135909, points = 61440, test_points = 2000;
  std::string kind = "automatic";
  // For the linear kinds; 0: by the rules.
  double c = 0;
  std::size_t beam = 10, memory_mib = 0;
  bool raw_values = false;
  // For the network.
  std::string sampler;                         // empty: chosen by the number of classes
  std::size_t set = 0, tables = 0, codes = 0;  // 0: chosen by rules
  std::size_t width = 128, batch_size = 256, index_mib = 256;
  std::uint64_t epochs = 0, max_steps = 0, seed = 1, refresh_every = 50, checkpoint_every = 0;
  double learning_rate = 1e-3;
  std::string output, checkpoint, label_names;
  std::size_t max_line_bytes = std::size_t{1} << 24;
  soma::metrics::PropensityOptions propensity{};
  int threads = 0;
  bool resume = false, report = false;
  double tune = -1;               // seconds; below 0: no trials
  std::uint64_t tune_passes = 0;  // 0: no limit, but that of `tune`
  TextOptions texts;
};
int train(const TrainOptions& options);

// Options for answers of a saved model, by all classes or by hashes.
struct AnswerOptions {
  std::string model, data;  // without data, evaluate generates points
  std::size_t top = 5, batch_size = 256, test_points = 2000;
  std::uint64_t seed = 1;
  bool sparse = false;
  std::size_t tables = 0, codes = 0, head = 2048, candidates = 4096;  // 0: by the rules
  std::size_t max_line_bytes = std::size_t{1} << 24;
  soma::metrics::PropensityOptions propensity{};
  int threads = 0;
  TextOptions texts;
};
int evaluate(const AnswerOptions& options);
int predict(const AnswerOptions& options);

// ---- shared by the commands

using tuning::cpu_seconds;
// "P@1 0.5900, P@3 0.3600 ... of 2515 points".
std::string text_of(const soma::metrics::Ranking& ranking);
// A ranking with the propensities of the model's training labels, where the model knows them.
soma::metrics::Ranking ranking_of(const soma::models::ExtremeClassifier& model,
                                  const soma::metrics::PropensityOptions& propensity);
void add(soma::metrics::Ranking& ranking, std::span<const soma::nn::FoundClass> best,
         std::span<const std::int32_t> labels);
// Computed over all classes.
soma::metrics::Ranking measure(const soma::models::ExtremeClassifier& model, soma::Context& context,
                               const soma::data::SparsePoints& points, std::size_t batch_size,
                               const soma::metrics::PropensityOptions& propensity);
// The same for the linear kinds, one point at a time, with the time that a point takes.
void print_measured(const soma::models::ExtremeClassifier& model, soma::Context& context,
                    const soma::data::SparsePoints& points,
                    const soma::metrics::PropensityOptions& propensity);
// The microseconds of each of some calls, in order.
class Latencies {
 public:
  template <class Call>
  void measure(const Call& call) {
    const std::int64_t start = soma::monotonic_nanoseconds();
    call();
    times_.push_back(static_cast<double>(soma::monotonic_nanoseconds() - start) * 1e-3);
  }
  // "50 us (p50), 120 us (p99)"; by the clock.
  std::string text();

 private:
  std::vector<double> times_{};
};

// Reads a file of points, and prints the reader's notes to standard error.
soma::data::SparsePoints read_points(const std::string& file, soma::text::XmcOptions options);

// The settings of a training run: chosen by the rules, unless they were given.
soma::models::ExtremeOptions model_options(const TrainOptions& options,
                                           const soma::data::SparsePoints& points);
// --tune: tries kinds and settings by a tenth of the points, and prints a table.
int tune(soma::Context& context, const TrainOptions& options,
         const soma::data::SparsePoints& points, const soma::text::CountedFeatures* features);
