#pragma once
// The functions of chart.hpp.

#include <soma/train/curves/chart.hpp>

#include <soma/train/curves/canvas.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points,
                                            std::size_t most) {
  if (points.size() <= most) return points;
  const std::size_t group = (points.size() + most - 1) / most;
  std::vector<CurvePoint> result;
  for (std::size_t begin = 0; begin < points.size(); begin += group) {
    const std::size_t end = (std::min)(begin + group, points.size());
    CurvePoint mean;
    for (std::size_t i = begin; i < end; ++i) {
      mean.x += points[i].x / static_cast<double>(end - begin);
      mean.y += points[i].y / static_cast<double>(end - begin);
    }
    result.push_back(mean);
  }
  return result;
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE std::string curve_colour(std::size_t style) {
  return std::string(detail::curve_colours[style % detail::curve_colours.size()]);
}

SOMA_INLINE std::string curve_stroke(std::size_t style, bool faint) {
  return "stroke=\"" + curve_colour(style) + "\" stroke-width=\"1.5\" stroke-dasharray=\"" +
         std::string(detail::curve_dashes[style / detail::curve_colours.size() %
                                          detail::curve_dashes.size()]) +
         (faint ? "\" stroke-opacity=\"0.3\"" : "\"");
}

SOMA_INLINE void draw_chart(SvgCanvas& canvas, const Chart& chart, const ChartBox& box) {
  constexpr double left = 60, right = 130, above = 24, below = 40, line = 18;
  const double end = box.left + box.width - (chart.legend ? right : 0);
  std::vector<Curve> curves;
  Range xs = chart.along, ys;
  for (const Curve& curve : chart.curves) {
    if (curves.size() == most_curves) break;
    curves.push_back(curve);
    curves.back().points = detail::thinned(curve.points, most_points_drawn);
    for (const CurvePoint& point : curves.back().points)
      if (std::isfinite(point.x) && std::isfinite(point.y)) {
        xs.add(point.x);
        ys.add(point.y);
      }
  }
  const Axis x = xs.tight(box.left + left, end);
  const Axis y = ys.axis(box.top + box.height - below, box.top + above, 0.05, chart.least_room);
  canvas.label(box.left + left, box.top + above - 10, chart.title);
  canvas.label((x.from + x.to) / 2, box.top + box.height - 6, chart.x_title, "middle");
  canvas.grid(x, y, true);
  if (ys.empty()) canvas.label((x.from + x.to) / 2, (y.from + y.to) / 2, "no values", "middle");
  double legend = box.top + above + 6;
  for (const Curve& curve : curves) {
    canvas.curve(curve.points, x, y, curve_stroke(curve.style, curve.faint),
                 curve_colour(curve.style));
    if (curve.dots)
      for (const CurvePoint& point : curve.points)
        if (std::isfinite(point.x) && std::isfinite(point.y))
          canvas.dot(x.at(point.x), y.at(point.y), curve_colour(curve.style), 2.5);
    if (!chart.legend || curve.name.empty()) continue;
    canvas.line({end + 10, legend}, {end + 32, legend}, curve_stroke(curve.style, curve.faint));
    canvas.label(end + 38, legend + 4, curve.name);
    legend += line;
  }
}

SOMA_INLINE std::string svg_of_charts(std::string_view title, const std::vector<Chart>& charts,
                                      std::string_view id, std::string_view metadata) {
  constexpr double width = 960, height = 250, above = 34;
  SvgCanvas canvas(width, above + height * static_cast<double>(charts.size()));
  if (!metadata.empty()) canvas.metadata(id, metadata);
  canvas.label(width / 2, 22, title, "middle");
  for (std::size_t i = 0; i < charts.size(); ++i)
    draw_chart(canvas, charts[i],
               {.left = 0,
                .top = above + height * static_cast<double>(i),
                .width = width,
                .height = height});
  return canvas.finish();
}

}  // namespace SOMA_NAMESPACE::train
