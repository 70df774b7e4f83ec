#pragma once
// Series: values over steps in bounded memory, however long a run is, as text and back.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace soma::train {

// Each point is the mean of the values of some neighbouring steps; at first of one step. When there
// are too many points, pairs of neighbours merge, and new points take twice as many values from
// then on. The content depends only on the values and their order, so a series that is written,
// read and continued equals that of a run without a break.
class Series {
 public:
  static constexpr std::size_t most_points = 1000;

  struct Point {
    std::uint64_t first = 0, last = 0;  // steps
    double sum = 0;                     // over `count` values; not finite if one is not
    std::uint64_t count = 0;

    double step() const { return (static_cast<double>(first) + static_cast<double>(last)) / 2; }
    double mean() const { return sum / static_cast<double>(count); }
  };

  // Steps come in ascending order. A step that is already there keeps its value, as in a run that
  // resumes from an earlier checkpoint and repeats steps.
  void add(std::uint64_t step, double value) {
    if (!points_.empty() && step <= points_.back().last) return;
    if (!points_.empty() && points_.back().count < values_) {
      Point& open = points_.back();
      open.last = step;
      open.sum += value;
      ++open.count;
      return;
    }
    if (points_.size() == most_points) merge();
    points_.push_back({.first = step, .last = step, .sum = value, .count = 1});
  }
  // Drops the points behind a step, from which a run continues. A point that the step lies inside
  // of stays.
  void drop_behind(std::uint64_t step) {
    while (!points_.empty() && points_.back().first > step) points_.pop_back();
  }

  const std::vector<Point>& points() const { return points_; }
  bool empty() const { return points_.empty(); }

  // "2 1 2 2 0.25 3 4 2 0.5": the number of values of a point, then first, last, count and sum of
  // each point, with digits that read back exactly.
  std::string to_text() const {
    std::string text = std::to_string(values_);
    for (const Point& point : points_) {
      text.append(" ").append(std::to_string(point.first));
      text.append(" ").append(std::to_string(point.last));
      text.append(" ").append(std::to_string(point.count)).append(" ");
      std::array<char, 32> digits;
      text.append(digits.data(),
                  std::to_chars(digits.data(), digits.data() + digits.size(), point.sum).ptr);
    }
    return text;
  }
  // Returns nothing if the text, which may come from anywhere, has another form.
  static std::optional<Series> from_text(std::string_view text) {
    Series series;
    if (!take(text, series.values_) || series.values_ == 0) return std::nullopt;
    while (!text.empty()) {
      Point point;
      if (series.points_.size() == most_points || !take(text, point.first) ||
          !take(text, point.last) || !take(text, point.count) || !take(text, point.sum) ||
          point.count == 0 || point.count > series.values_ || point.last < point.first ||
          (!series.points_.empty() && point.first <= series.points_.back().last))
        return std::nullopt;
      series.points_.push_back(point);
    }
    return series;
  }

 private:
  template <class Number>
  static bool take(std::string_view& text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty() && text.front() != ' ') return false;
    text.remove_prefix((std::min)(text.size(), std::size_t{1}));
    return true;
  }
  void merge() {
    for (std::size_t i = 0; 2 * i < points_.size(); ++i) {
      Point pair = points_[2 * i];
      if (2 * i + 1 < points_.size()) {
        const Point& next = points_[2 * i + 1];
        pair.last = next.last;
        pair.sum += next.sum;
        pair.count += next.count;
      }
      points_[i] = pair;
    }
    points_.resize((points_.size() + 1) / 2);
    values_ *= 2;
  }

  std::uint64_t values_ = 1;  // that a point takes
  std::vector<Point> points_{};
};

}  // namespace soma::train
