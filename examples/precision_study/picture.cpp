// The picture of a study as SVG: two panels, one colour and dash for each policy.

#include "summary.hpp"

#include <soma/train/curves/chart.hpp>

#include <cstddef>

using soma::train::Axis;
using soma::train::curve_colour;
using soma::train::curve_stroke;

std::string svg_picture(const std::vector<PolicySummary>& all, const std::string& title) {
  constexpr double width = 960, height = 420, top = 50, bottom = 370;
  soma::train::SvgCanvas canvas(width, height);
  canvas.label(width / 2, 22, title, "middle");

  soma::train::Chart losses{
      .title = "training loss", .x_title = "share of the run", .legend = false, .least_room = 1e-3};
  losses.along.add(0);
  losses.along.add(1);
  soma::train::Range range;
  for (std::size_t i = 0; i < all.size(); ++i) {
    soma::train::Curve curve{.style = i};
    for (std::size_t j = 0; j < all[i].curve.size(); ++j)
      curve.points.push_back(
          {(static_cast<double>(j) + 0.5) / static_cast<double>(all[i].curve.size()),
           all[i].curve[j]});
    losses.curves.push_back(std::move(curve));
    range.add(all[i].accuracy.mean - all[i].accuracy.deviation);
    range.add(all[i].accuracy.mean + all[i].accuracy.deviation);
  }
  draw_chart(canvas, losses, {.left = 0, .top = 26, .width = 520, .height = bottom + 14});

  const Axis places{0, static_cast<double>(all.empty() ? 1 : all.size()), 590, 800};
  const Axis hits = range.axis(bottom, top, 0.05, 2e-3);
  canvas.grid(places, hits);
  canvas.label(590, 40, "accuracy, validation rows: mean and standard deviation");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Spread& accuracy = all[i].accuracy;
    const double x = places.at(static_cast<double>(i) + 0.5);
    canvas.line({x, hits.at(accuracy.mean - accuracy.deviation)},
                {x, hits.at(accuracy.mean + accuracy.deviation)}, curve_stroke(i));
    canvas.dot(x, hits.at(accuracy.mean), curve_colour(i));
    const double y = top + 18 * static_cast<double>(i);
    canvas.line({816, y}, {838, y}, curve_stroke(i));
    canvas.dot(827, y, curve_colour(i));
    canvas.label(844, y + 4, all[i].policy);
  }
  return canvas.finish();
}
