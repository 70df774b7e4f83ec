// The results of a study as a table and a picture.
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
  double loss_gap = 0;  // difference of the training loss to the first policy's
  double peak_bytes = 0, underflow = 0, saturated = 0, signal_to_noise = 0, unmoved = 0;
  double skipped = 0;
  std::vector<double> curve{};  // mean over the runs
};

// Summarises policies in the order of `policies`; policies without a run are left out.
std::vector<PolicySummary> summarize(const std::vector<std::string>& policies,
                                     const std::vector<RunResult>& results);

std::string markdown_table(const std::vector<PolicySummary>& all);
std::string csv_table(const std::vector<PolicySummary>& all);
// Draws the training loss over the run and, beside it, the accuracy with its spread.
std::string svg_picture(const std::vector<PolicySummary>& all, const std::string& title);
