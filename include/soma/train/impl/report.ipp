#pragma once
// The functions of report.hpp.

#include <soma/train/report.hpp>

#include <soma/base/fixed.hpp>
#include <soma/train/events.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE std::string short_number(double value) {
  const char* const units[] = {"", "k", "M", "G", "T"};
  int unit = 0;
  while (value >= 999.5 && unit < 4) {
    value /= 1000;
    ++unit;
  }
  const int digits = value >= 99.95 || (unit == 0 && value == static_cast<int>(value)) ? 0
                     : value >= 9.995                                                  ? 1
                                                                                       : 2;
  return soma::fixed(value, digits) + units[unit];
}

SOMA_INLINE std::string duration(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds < 0 ? 0 : seconds + 0.5);
  const auto two = [](std::uint64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  if (whole >= 3600) return std::to_string(whole / 3600) + "h " + two(whole / 60 % 60) + "m";
  if (whole >= 60) return std::to_string(whole / 60) + "m " + two(whole % 60) + "s";
  return std::to_string(whole) + "s";
}

SOMA_INLINE std::string one_class_only(const metrics::Classification& metrics) {
  return "one class only; always guessing the most frequent one gets " +
         soma::fixed(metrics.majority_share(), 4);
}

SOMA_INLINE std::string title_of(std::string_view metric, const metrics::Values& values) {
  const metrics::Value* value = metrics::find(values, metric);
  return value == nullptr ? "validation loss" : value->title;
}

SOMA_INLINE std::string bytes(std::uint64_t count) {
  return soma::fixed(static_cast<double>(count) / (1 << 20), 0) + " MiB";
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE std::vector<std::pair<std::string, std::string>> report_lines(const Report& report) {
  using detail::short_number, soma::fixed;
  std::vector<std::pair<std::string, std::string>> lines;
  const auto line = [&lines](std::string_view name, std::string value) {
    lines.emplace_back(name, std::move(value));
  };
  if (report.interrupted) line("interrupted", "after step " + std::to_string(report.steps));
  if (report.evaluated) line("validation loss", fixed(report.evaluation_loss, 4));
  if (report.evaluated && report.metrics.cases() != 0) {
    const metrics::Interval interval = report.metrics.accuracy_interval();
    line("accuracy", fixed(report.metrics.accuracy(), 4) + "  (95 %: " + fixed(interval.low, 4) +
                         " to " + fixed(interval.high, 4) + ", " +
                         std::to_string(report.metrics.cases()) + " validation rows)");
    line("macro F1", metrics::shown(report.metrics.macro_f1()));
    if (report.metrics.classes() == 2)
      line("AUC", metrics::shown(report.metrics.area_under_curve()));
    if (report.metrics.only_prediction())
      line("predictions", detail::one_class_only(report.metrics));
  } else {
    for (const metrics::Value& value : report.values)
      line(value.title, metrics::shown(value.value));
  }
  if (!report.best_metric.empty())
    line("weights",
         "of the best evaluation, by " + detail::title_of(report.best_metric, report.values));
  line("steps", std::to_string(report.steps) + "  (" + fixed(report.steps_per_second(), 2) + "/s)");
  line("tokens", short_number(static_cast<double>(report.tokens)) + "  (" +
                     short_number(report.tokens_per_second()) + "/s)");
  if (report.useful_flops > 0) line("useful GFLOP/s", fixed(report.useful_gflops(), 1));
  line("training time",
       detail::duration(report.train_seconds) + "  (waiting for data " +
           fixed(report.train_seconds > 0 ? 100 * report.wait_seconds / report.train_seconds : 0,
                 2) +
           " %)");
  if (report.reduction_seconds > 0)
    line("reduction", fixed(1e3 * report.reduction_seconds /
                                static_cast<double>(report.steps - report.first_step),
                            1) +
                          " ms a step, " + fixed(100 * report.reduction_hidden(), 0) + " % hidden");
  line("total time", detail::duration(report.total_seconds));
  line("peak memory", detail::bytes(report.peak_resident_bytes));
  if (report.price_per_hour > 0)
    line("cost",
         fixed(report.cost(), 4) + "  (at " + fixed(report.price_per_hour, 2) + " an hour)");
  if (report.skipped_steps != 0)
    line("skipped steps", std::to_string(report.skipped_steps) + "  (gradients not finite)");
  return lines;
}

SOMA_INLINE std::string to_string(const Report& report) {
  std::string text;
  for (const auto& [name, value] : report_lines(report)) {
    if (name == "total time") text.append(report.pipeline);
    text.append("  ").append(name).append(name.size() < 18 ? 18 - name.size() : 1, ' ');
    text.append(value).push_back('\n');
  }
  return text;
}

}  // namespace SOMA_NAMESPACE::train
