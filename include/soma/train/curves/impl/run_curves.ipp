#pragma once
// The functions of run_curves.hpp.

#include <soma/train/curves/run_curves.hpp>

#include <soma/io/atomic_file.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/ops/fields.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/files.hpp>
#include <soma/train/curves/chart.hpp>
#include <soma/train/curves/page.hpp>
#include <soma/train/curves/series.hpp>
#include <soma/train/events.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void fields(FieldVisitor& visitor, RunCurvesOptions& options) {
  visitor.option("seconds_between", options.seconds_between, {.least = 0, .infinite = true});
}

SOMA_INLINE RunCurves::RunCurves(RunCurvesOptions options) : options_(std::move(options)) {
  check_ranges("RunCurves", options_, error_id::train_options);
}

SOMA_INLINE void RunCurves::on_start(const RunInfo& run) {
  curves_.clear();
  first_step_ = run.first_step;
  best_metric_ = run.best_metric;
  written_at_ = monotonic_nanoseconds();
  if (run.first_step == 0) return;
  for (const std::string* path : {&options_.file, &options_.page})
    if (curves_.empty() && !path->empty()) read(*path);
  for (Named& curve : curves_) curve.series.drop_behind(run.first_step);
}

SOMA_INLINE void RunCurves::on_step(const StepInfo& step) {
  add("loss", "training loss", step.step, step.loss);
  add("rate", "learning rate", step.step, step.learning_rate);
  const double seconds = static_cast<double>(monotonic_nanoseconds() - written_at_) * 1e-9;
  if (seconds >= options_.seconds_between) write();
}

SOMA_INLINE void RunCurves::on_evaluation(const EvaluationInfo& info) {
  add("held_out/loss", "validation loss", info.step, info.loss);
  // Only the first few if there are many, and the one that decides.
  std::size_t counts[2] = {};
  if (info.values != nullptr)
    for (const metrics::Value& value : *info.values) {
      if (value.name != best_metric_ && counts[value.higher_is_better]++ >= most_metrics) continue;
      const std::string name = "held_out/" + value.name;
      add(value.higher_is_better ? name : std::string(less) + name, value.title, info.step,
          value.value);
    }
  write();
}

SOMA_INLINE void RunCurves::on_checkpoint(std::uint64_t) { write(); }

SOMA_INLINE void RunCurves::on_end(const Report&) { write(); }

SOMA_INLINE std::uint64_t RunCurves::beginning() const {
  const Series* loss = find("loss");
  if (first_step_ == 0 ||
      (loss != nullptr && !loss->empty() && loss->points().front().first <= first_step_))
    return 0;
  return first_step_;
}

SOMA_INLINE const Series* RunCurves::find(std::string_view name) const {
  for (const Named& curve : curves_)
    if (curve.name == name ||
        (curve.name.starts_with(less) && curve.name.substr(less.size()) == name))
      return &curve.series;
  return nullptr;
}

SOMA_INLINE std::string RunCurves::svg() const {
  // Metrics where more is better lie between 0 and 1; the others have units of their own.
  Chart loss{.title = "loss", .x_title = "step"}, metrics{.title = "metrics", .x_title = "step"},
      errors{.title = "errors", .x_title = "step"},
      rate{.title = "learning rate", .x_title = "step"};
  for (const Named& curve : curves_) {
    const std::vector<CurvePoint> points = points_of(curve.series);
    if (curve.name == "loss") {
      loss.curves.push_back({.name = {}, .points = points, .style = 0, .faint = true});
      loss.curves.push_back({.name = "training", .points = smoothed(points), .style = 0});
    } else if (curve.name == "rate") {
      rate.curves.push_back({.name = "rate", .points = points, .style = 0});
    } else if (curve.name == "held_out/loss") {
      loss.curves.push_back({.name = "validation", .points = points, .style = 3, .dots = true});
    } else {
      Chart& chart = curve.name.starts_with(less) ? errors : metrics;
      chart.curves.push_back(
          {.name = curve.title, .points = points, .style = chart.curves.size() + 1, .dots = true});
    }
  }
  std::vector<Chart> charts{std::move(loss)};
  for (Chart* chart : {&metrics, &errors})
    if (!chart->curves.empty()) charts.push_back(std::move(*chart));
  charts.push_back(std::move(rate));
  for (Chart& chart : charts) chart.along = steps();
  return svg_of_charts(options_.title, charts, data_id, data());
}

SOMA_INLINE void RunCurves::write() {
  written_at_ = monotonic_nanoseconds();
  if (options_.file.empty() && options_.page.empty()) return;
  const std::string picture = svg();
  if (!options_.file.empty()) write_whole(options_.file, picture);
  if (!options_.page.empty())
    write_whole(options_.page, report_page({.title = options_.title, .picture = picture}));
}

SOMA_INLINE void RunCurves::add(std::string_view name, std::string_view title, std::uint64_t step,
                                double value) {
  for (Named& curve : curves_)
    if (curve.name == name) return curve.series.add(step, value);
  if (curves_.size() == most_names) return;
  curves_.push_back({std::string(name), std::string(title), {}});
  curves_.back().series.add(step, value);
}

SOMA_INLINE void RunCurves::write_whole(const std::string& path, std::string_view content) {
  AtomicFile file("RunCurves", path);
  file.write(content);
  file.commit();
}

SOMA_INLINE Range RunCurves::steps() const {
  Range range;
  range.add(0);
  for (const Named& curve : curves_)
    if (!curve.series.empty()) range.add(static_cast<double>(curve.series.points().back().last));
  return range;
}

SOMA_INLINE std::vector<CurvePoint> RunCurves::points_of(const Series& series) {
  std::vector<CurvePoint> points;
  for (const Series::Point& point : series.points()) points.push_back({point.step(), point.mean()});
  return points;
}

SOMA_INLINE std::vector<CurvePoint> RunCurves::smoothed(const std::vector<CurvePoint>& points) {
  constexpr double share = 0.05;
  std::vector<CurvePoint> result;
  double sum = 0, weight = 0;
  for (const CurvePoint& point : points) {
    if (!std::isfinite(point.y)) {
      sum = weight = 0;
      result.push_back({point.x, std::numeric_limits<double>::quiet_NaN()});
      continue;
    }
    sum += share * (point.y - sum);
    weight += share * (1 - weight);
    result.push_back({point.x, sum / weight});
  }
  return result;
}

SOMA_INLINE std::string RunCurves::packed(std::string_view name) {
  constexpr std::string_view harmless = " ._-/", digits = "0123456789ABCDEF";
  std::string text;
  for (const char letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    if ((letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') ||
        (letter >= 'a' && letter <= 'z') || harmless.find(letter) != harmless.npos)
      text.push_back(letter);
    else
      text.append(1, '%').append({digits[byte >> 4], digits[byte & 15]});
  }
  return text;
}

SOMA_INLINE std::string RunCurves::unpacked(std::string_view text) {
  std::string name;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned byte = 0;
    const char* begin = text.data() + at + 1;
    if (text[at] == '%' && at + 2 < text.size() &&
        std::from_chars(begin, begin + 2, byte, 16).ptr == begin + 2) {
      name.push_back(static_cast<char>(byte));
      at += 2;
    } else {
      name.push_back(text[at]);
    }
  }
  return name;
}

SOMA_INLINE std::string RunCurves::data() const {
  std::string text = "\n";
  for (const Named& curve : curves_) {
    text.append(packed(curve.name)).append("\t").append(packed(curve.title));
    text.append("\t").append(curve.series.to_text()).append("\n");
  }
  return text;
}

SOMA_INLINE void RunCurves::read(const std::string& path) {
  constexpr std::size_t most_bytes = std::size_t{1} << 24;
  if (!system::is_regular(path)) return;
  const auto file = MappedFile::open("RunCurves", path);
  const std::string_view content(reinterpret_cast<const char*>(file->bytes().data()),
                                 (std::min)(file->bytes().size(), most_bytes));
  const std::size_t begin = content.find(begin_mark);
  if (begin == content.npos) return;
  std::string_view text = content.substr(begin + begin_mark.size());
  text = text.substr(0, text.find(end_mark));
  std::vector<Named> found;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix((std::min)(text.size(), line.size() + 1));
    if (line.empty()) continue;
    const std::size_t first = line.find('\t');
    const std::size_t second = first == line.npos ? first : line.find('\t', first + 1);
    if (second == line.npos || found.size() == most_names) return;
    std::optional<Series> series = Series::from_text(line.substr(second + 1));
    if (!series) return;
    found.push_back({unpacked(line.substr(0, first)),
                     unpacked(line.substr(first + 1, second - first - 1)), *std::move(series)});
  }
  curves_ = std::move(found);
}

}  // namespace SOMA_NAMESPACE::train
