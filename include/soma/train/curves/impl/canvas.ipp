#pragma once
// The functions of canvas.hpp.

#include <soma/train/curves/canvas.hpp>

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

SOMA_INLINE double Axis::at(double value) const {
  return from + (value - low) / (high - low) * (to - from);
}

SOMA_INLINE void Range::add(double value) {
  if (!std::isfinite(value)) return;
  constexpr double most = 1e300;
  value = std::clamp(value, -most, most);
  low_ = (std::min)(low_, value);
  high_ = (std::max)(high_, value);
}

SOMA_INLINE Axis Range::axis(double from, double to, double room, double least) const {
  if (empty()) return {0, 1, from, to};
  // Values that are closer together than a double's precision would have no ticks.
  const double magnitude = (std::max)(std::fabs(low_), std::fabs(high_));
  const double needed = (std::max)({(high_ - low_) * room, least, magnitude * 1e-9, 1e-300});
  return {low_ - needed, high_ + needed, from, to};
}

SOMA_INLINE Axis Range::tight(double from, double to) const { return axis(from, to, 0); }

}  // namespace SOMA_NAMESPACE::train

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE double tick_distance(double range) {
  const double rough = range / 5, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

SOMA_INLINE std::string tick_text(double value, double distance) {
  if (std::fabs(value) < distance / 2) return "0";
  const double digits = -std::floor(std::log10(distance) + 1e-9);
  if (digits <= 4 && std::fabs(value) < 1e6)
    return soma::fixed(value, digits > 0 ? static_cast<int>(digits) : 0);
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific, 1)
          .ptr;
  return {text.data(), end};
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE SvgCanvas::SvgCanvas(double width, double height) {
  text_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + soma::fixed(width, 0) + " " +
          soma::fixed(height, 0) + "\" font-family=\"sans-serif\" font-size=\"12\">\n" +
          "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
}

SOMA_INLINE void SvgCanvas::line(CurvePoint from, CurvePoint to, std::string_view style) {
  text_.append("<line x1=\"").append(place(from.x)).append("\" y1=\"").append(place(from.y));
  text_.append("\" x2=\"").append(place(to.x)).append("\" y2=\"").append(place(to.y));
  text_.append("\" ").append(style).append("/>\n");
}

SOMA_INLINE void SvgCanvas::label(double x, double y, std::string_view words,
                                  std::string_view anchor) {
  text_.append("<text x=\"").append(place(x)).append("\" y=\"").append(place(y));
  text_.append("\" text-anchor=\"").append(anchor).append("\">");
  text_.append(markup_text(words, 200)).append("</text>\n");
}

SOMA_INLINE void SvgCanvas::dot(double x, double y, std::string_view colour, double radius) {
  text_.append("<circle cx=\"").append(place(x)).append("\" cy=\"").append(place(y));
  text_.append("\" r=\"").append(soma::fixed(radius, 1));
  text_.append("\" fill=\"").append(colour).append("\"/>\n");
}

SOMA_INLINE void SvgCanvas::curve(std::span<const CurvePoint> points, const Axis& x, const Axis& y,
                                  std::string_view style, std::string_view colour) {
  const auto drawn = [](const CurvePoint& p) { return std::isfinite(p.x) && std::isfinite(p.y); };
  for (std::size_t begin = 0; begin < points.size();) {
    if (!drawn(points[begin])) {
      ++begin;
      continue;
    }
    std::size_t end = begin + 1;
    while (end < points.size() && drawn(points[end])) ++end;
    if (end == begin + 1) {
      dot(x.at(points[begin].x), y.at(std::clamp(points[begin].y, y.low, y.high)), colour, 2);
    } else {
      text_.append("<polyline fill=\"none\" ").append(style).append(" points=\"");
      for (std::size_t i = begin; i < end; ++i) {
        text_.append(i == begin ? "" : " ").append(place(x.at(points[i].x))).append(",");
        text_.append(place(y.at(std::clamp(points[i].y, y.low, y.high))));
      }
      text_.append("\"/>\n");
    }
    begin = end;
  }
}

SOMA_INLINE void SvgCanvas::grid(const Axis& x, const Axis& y, bool x_numbers) {
  ticks(y, [&](double at, const std::string& words) {
    line({x.from, at}, {x.to, at}, "stroke=\"#dddddd\"");
    label(x.from - 6, at + 4, words, "end");
  });
  if (x_numbers)
    ticks(x, [&](double at, const std::string& words) {
      line({at, y.from}, {at, y.from + 4}, "stroke=\"black\"");
      label(at, y.from + 17, words, "middle");
    });
  line({x.from, y.from}, {x.to, y.from}, "stroke=\"black\"");
  line({x.from, y.from}, {x.from, y.to}, "stroke=\"black\"");
}

SOMA_INLINE void SvgCanvas::metadata(std::string_view id, std::string_view content) {
  text_.append("<metadata id=\"").append(id).append("\">").append(content);
  text_.append("</metadata>\n");
}

SOMA_INLINE std::string SvgCanvas::finish() { return std::move(text_.append("</svg>\n")); }

SOMA_INLINE std::string SvgCanvas::place(double value) {
  return soma::fixed(std::isfinite(value) ? std::clamp(value, -1e5, 1e5) : 0, 1);
}

}  // namespace SOMA_NAMESPACE::train
