#include "summary.hpp"

#include <soma/base/fixed.hpp>

#include <algorithm>
#include <cmath>

using soma::fixed;

Spread spread(const std::vector<double>& values) {
  Spread result;
  if (values.empty()) return result;
  for (const double value : values) result.mean += value;
  result.mean /= static_cast<double>(values.size());
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return result;
}

std::vector<PolicySummary> summarize(const std::vector<std::string>& policies,
                                     const std::vector<RunResult>& results) {
  std::vector<PolicySummary> all;
  for (const std::string& policy : policies) {
    std::vector<const RunResult*> runs;
    for (const RunResult& result : results)
      if (result.policy == policy) runs.push_back(&result);
    if (runs.empty()) continue;
    const auto of = [&](double RunResult::*member) {
      std::vector<double> values;
      for (const RunResult* run : runs) values.push_back(run->*member);
      return spread(values);
    };
    const auto least = [&](double RunResult::*member) {
      double result = runs.front()->*member;
      for (const RunResult* run : runs) result = (std::min)(result, run->*member);
      return result;
    };
    const auto counted = [&](double RunResult::*member) {
      for (const RunResult* run : runs)
        if (run->*member >= 0) return run->*member;
      return -1.0;
    };
    PolicySummary summary{.policy = policy,
                          .runs = runs.size(),
                          .accuracy = of(&RunResult::accuracy),
                          .train_loss = of(&RunResult::train_loss),
                          .tokens_per_second = of(&RunResult::tokens_per_second),
                          .peak_bytes = least(&RunResult::peak_bytes),
                          .underflow = counted(&RunResult::underflow),
                          .saturated = counted(&RunResult::saturated),
                          .signal_to_noise = counted(&RunResult::signal_to_noise),
                          .unmoved = counted(&RunResult::unmoved),
                          .skipped = of(&RunResult::skipped).mean};
    for (const RunResult* run : runs) {
      summary.curve.resize((std::max)(summary.curve.size(), run->curve.size()));
      for (std::size_t i = 0; i < run->curve.size(); ++i)
        summary.curve[i] += run->curve[i] / static_cast<double>(runs.size());
    }
    summary.loss_gap = all.empty() ? 0 : summary.train_loss.mean - all.front().train_loss.mean;
    all.push_back(std::move(summary));
  }
  return all;
}

namespace {

std::string percent(double share) { return share < 0 ? "-" : fixed(100 * share, 3); }

std::vector<std::string> cells(const PolicySummary& s) {
  return {s.policy,
          std::to_string(s.runs),
          fixed(s.accuracy.mean, 4) + (s.runs > 1 ? " ± " + fixed(s.accuracy.deviation, 4) : ""),
          fixed(s.train_loss.mean, 4),
          fixed(s.loss_gap, 4),
          fixed(s.peak_bytes / (1 << 20), 0),
          fixed(s.tokens_per_second.mean, 0),
          percent(s.underflow),
          percent(s.saturated),
          s.signal_to_noise >= 0 ? fixed(s.signal_to_noise, 1) : "-",
          percent(s.unmoved),
          fixed(s.skipped, 1)};
}

const std::vector<std::string> headings{
    "policy",   "runs",        "accuracy",    "training loss",        "gap",       "memory (MiB)",
    "tokens/s", "underflow %", "saturated %", "signal to noise (dB)", "unmoved %", "skipped steps"};

}  // namespace

std::string markdown_table(const std::vector<PolicySummary>& all) {
  std::string text;
  const auto line = [&](const std::vector<std::string>& row) {
    for (const std::string& cell : row) text.append("| ").append(cell).append(" ");
    text.append("|\n");
  };
  line(headings);
  line(std::vector<std::string>(headings.size(), "---"));
  for (const PolicySummary& summary : all) line(cells(summary));
  return text;
}

std::string csv_table(const std::vector<PolicySummary>& all) {
  std::string text =
      "policy,runs,accuracy,accuracy_deviation,training_loss,training_loss_deviation,gap,peak_"
      "bytes,"
      "tokens_per_second,underflow,saturated,signal_to_noise_db,unmoved,skipped_steps\n";
  for (const PolicySummary& s : all) {
    text.append(s.policy).append(",").append(std::to_string(s.runs));
    for (const double value :
         {s.accuracy.mean, s.accuracy.deviation, s.train_loss.mean, s.train_loss.deviation,
          s.loss_gap, s.peak_bytes, s.tokens_per_second.mean, s.underflow, s.saturated,
          s.signal_to_noise, s.unmoved, s.skipped})
      text.append(",").append(soma::to_text(value));
    text.append("\n");
  }
  return text;
}
