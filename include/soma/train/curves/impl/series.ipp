#pragma once
// The functions of series.hpp.

#include <soma/train/curves/series.hpp>

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

namespace SOMA_NAMESPACE::train {

SOMA_INLINE double Series::Point::step() const {
  return (static_cast<double>(first) + static_cast<double>(last)) / 2;
}

SOMA_INLINE double Series::Point::mean() const { return sum / static_cast<double>(count); }

SOMA_INLINE void Series::add(std::uint64_t step, double value) {
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

SOMA_INLINE void Series::drop_behind(std::uint64_t step) {
  while (!points_.empty() && points_.back().first > step) points_.pop_back();
}

SOMA_INLINE bool Series::empty() const { return points_.empty(); }

SOMA_INLINE std::string Series::to_text() const {
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

SOMA_INLINE std::optional<Series> Series::from_text(std::string_view text) {
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

SOMA_INLINE void Series::merge() {
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

}  // namespace SOMA_NAMESPACE::train
