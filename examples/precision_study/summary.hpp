// The results of a study: a table and a picture.
#pragma once

#include "study.hpp"

#include <string>
#include <vector>

// Mean and sample standard deviation.
struct Spread {
  double mean = 0, deviation = 0;
};
Spread spread(const std::vector<double>& values);

// All runs of one policy.
struct PolicySummary {
  std::string policy;
  std::size_t runs = 0;
  Spread accuracy, train_loss, tokens_per_second;
  double loss_gap = 0;  // the training loss less the first policy's
  double peak_bytes = 0, underflow = 0, saturated = 0, signal_to_noise = 0, unmoved = 0;
  double skipped = 0;
  std::vector<double> curve{};  // mean over the runs
};

// In the order of `policies`, without those that have no run.
std::vector<PolicySummary> summarize(const std::vector<std::string>& policies,
                                     const std::vector<RunResult>& results);

std::string markdown_table(const std::vector<PolicySummary>& all);
std::string csv_table(const std::vector<PolicySummary>& all);
// Draws the training loss over the run and, beside it, the accuracy with its spread.
std::string svg_picture(const std::vector<PolicySummary>& all, const std::string& title);
