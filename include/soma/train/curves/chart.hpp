#pragma once
// Charts: curves over a common axis, with a legend; several charts, one below the other, as a
// picture. The size of the picture is bounded, however much data is given.

#include <soma/train/curves/canvas.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::train {

struct Curve {
  std::string name{};                // in the legend; empty: it is not there
  std::vector<CurvePoint> points{};  // in the order of x; one that is not finite is a gap
  std::size_t style = 0;             // which colour and dash
  bool faint = false;                // behind another curve of the same style
  bool dots = false;                 // few points, each of them a dot
};

struct Chart {
  std::string title{}, x_title{};
  std::vector<Curve> curves{};
  bool legend = true;
  double least_room = 0;  // above and below the curves, in values
  Range along{};          // values of x that the axis has even where no curve does
};

struct ChartBox {
  double left = 0, top = 0, width = 960, height = 240;
};

inline constexpr std::size_t most_curves = 32;          // curves of a chart; others are left out
inline constexpr std::size_t most_points_drawn = 2000;  // points of a curve; else means are drawn

namespace detail {

// Okabe and Ito's colours, which people with any colour vision can tell apart.
inline constexpr std::array<std::string_view, 8> curve_colours{
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000", "#999999"};
inline constexpr std::array<std::string_view, 3> curve_dashes{"", "6 3", "2 2"};

// The means of groups of points, with at most `most` groups; a group with a gap is a gap.
std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, std::size_t most);

}  // namespace detail

std::string curve_colour(std::size_t style);
// Attributes of a line.
std::string curve_stroke(std::size_t style, bool faint = false);

// Draws the chart into the box: its title above, the title of x below, the legend at the right.
void draw_chart(SvgCanvas& canvas, const Chart& chart, const ChartBox& box);

// A picture of the charts, one below the other. `metadata`: escaped text under `id`; empty: none.
std::string svg_of_charts(std::string_view title, const std::vector<Chart>& charts,
                          std::string_view id = {}, std::string_view metadata = {});

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/curves/impl/chart.ipp>
#endif
