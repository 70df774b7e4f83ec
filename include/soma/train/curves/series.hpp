#pragma once
// Series: values over steps in bounded memory, however long a run is, as text and back.

#include <soma/base/config.hpp>
#include <soma/base/number_text.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

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

    double step() const;
    double mean() const;
  };

  // Steps come in ascending order. A step that is already there keeps its value, as in a run that
  // resumes from an earlier checkpoint and repeats steps.
  void add(std::uint64_t step, double value);
  // Drops the points behind a step, from which a run continues. A point that the step lies inside
  // of stays.
  void drop_behind(std::uint64_t step);

  const std::vector<Point>& points() const { return points_; }
  bool empty() const;

  // "2 1 2 2 0.25 3 4 2 0.5": the number of values of a point, then first, last, count and sum of
  // each point, with digits that read back exactly.
  std::string to_text() const;
  // Returns nothing if the text, which may come from anywhere, has another form.
  static std::optional<Series> from_text(std::string_view text);

 private:
  template <class Number>
  static bool take(std::string_view& text, Number& number) {
    const auto [end, error] = number_from(text, number);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty() && text.front() != ' ') return false;
    text.remove_prefix((std::min)(text.size(), std::size_t{1}));
    return true;
  }
  void merge();

  std::uint64_t values_ = 1;  // that a point takes
  std::vector<Point> points_{};
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/curves/impl/series.ipp>
#endif
