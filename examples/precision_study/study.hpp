// A study: the same task under several precisions, with several seeds each.
#pragma once

#include <soma/base/record.hpp>
#include <soma/numeric/precision.hpp>
#include <soma/text/labelled_text.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct StudyOptions {
  std::string pretrained, data, dev, output = "precision_study";
  std::string policies = "fp32,bf16,bf16_sr,fp8_delayed,fp8_current,mxfp8";
  std::size_t seeds = 3, batch_size = 32, max_length = 128, reviews = 24000;
  std::uint64_t epochs = 1, max_steps = 0, statistics_every = 50;
  double learning_rate = -1;  // below 0: 1e-4 for a pretrained model, else 5e-4
  float dropout = 0.1f;
  int threads = 0;
};

struct StudyData {
  std::vector<soma::text::LabelledRow> train, held_out;
  std::vector<std::string> labels;
};

// The results of one run.
struct RunResult {
  std::string policy, formats;  // the policy's name and its description
  std::string conditions;       // the other settings that change results, without the seed
  std::uint64_t seed = 0;
  double accuracy = 0, evaluation_loss = 0;
  double train_loss = 0;  // mean over the last tenth of the steps
  double peak_bytes = 0;  // all memory that soma allocated
  double tokens_per_second = 0;
  double skipped = 0;  // number of skipped steps
  // Only the first seed's run counts these, because counting takes time and memory; below 0: not
  // counted. The first three describe the operands of products, over all sampled steps and layers,
  // without zeros. `unmoved` is the share of linear layers' weights that an update left unchanged.
  double underflow = -1, saturated = -1, signal_to_noise = -1, unmoved = -1;
  std::vector<double> curve;  // training loss, means over equal parts of the run
};

soma::Record to_record(const RunResult& result);
// Error record.* if the record is not a result.
RunResult to_result(const soma::Record& record);

StudyData study_data(const StudyOptions& options);
std::string conditions_of(const StudyOptions& options, const StudyData& data);
RunResult run_once(const StudyOptions& options, const StudyData& data,
                   const soma::Precision& precision, std::uint64_t seed);
