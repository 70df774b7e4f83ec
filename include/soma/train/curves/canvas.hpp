#pragma once
// SvgCanvas: lines, labels and curves as the text of an SVG picture. Axis: maps values to places in
// the picture.

#include <soma/base/fixed.hpp>
#include <soma/train/curves/markup.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::train {

// From `low` to `high` in values, from `from` to `to` in the picture.
struct Axis {
  double low = 0, high = 1;
  double from = 0, to = 1;

  double at(double value) const;
};

// The axis over the finite values that have been added, with a little room on both sides.
class Range {
 public:
  // Values are limited so that the difference of two values is a double.
  void add(double value);
  bool empty() const { return low_ > high_; }
  // `room`: a share of the range, at least `least`. Without values it is 0 to 1.
  Axis axis(double from, double to, double room = 0.05, double least = 0) const;
  Axis tight(double from, double to) const;

 private:
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

namespace detail {

// Steps of 1, 2 or 5 times a power of ten, about five of them.
double tick_distance(double range);

// A tick's value with as many digits as distinguish it from its neighbour.
std::string tick_text(double value, double distance);

}  // namespace detail

struct CurvePoint {
  double x = 0, y = 0;
};

class SvgCanvas {
 public:
  SvgCanvas(double width, double height);

  // `style`: attributes, which are the caller's own words.
  void line(CurvePoint from, CurvePoint to, std::string_view style);
  // `words` may come from outside: they are escaped.
  void label(double x, double y, std::string_view words, std::string_view anchor = "start");
  void dot(double x, double y, std::string_view colour, double radius = 3.5);
  // A line through the points, with a gap where one is not finite; a point between two gaps is a
  // dot.
  void curve(std::span<const CurvePoint> points, const Axis& x, const Axis& y,
             std::string_view style, std::string_view colour);
  // Lines and numbers along y, an axis along both; with `x_numbers` numbers along x, too.
  void grid(const Axis& x, const Axis& y, bool x_numbers = false);
  // Text that readers of the file find again and viewers do not show.
  void metadata(std::string_view id, std::string_view content);
  std::string finish();

 private:
  // In tenths of a unit, and limited to a range that every reader accepts.
  static std::string place(double value);
  template <class Draw>
  static void ticks(const Axis& axis, const Draw& draw) {
    constexpr int most = 20;
    const double distance = detail::tick_distance(axis.high - axis.low);
    double value = std::ceil(axis.low / distance) * distance;
    for (int i = 0; i < most && value <= axis.high; ++i, value += distance)
      draw(axis.at(value), detail::tick_text(value, distance));
  }

  std::string text_;
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/curves/impl/canvas.ipp>
#endif
