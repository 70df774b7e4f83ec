// The picture of a study as SVG: two panels, one colour and dash for each policy.

#include "summary.hpp"

#include <soma/base/fixed.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace {

using soma::detail::fixed;

// Okabe and Ito's colours, which people tell apart whatever colours they see.
constexpr std::array<std::string_view, 8> colours{"#000000", "#E69F00", "#56B4E9", "#009E73",
                                                  "#0072B2", "#D55E00", "#CC79A7", "#999999"};
constexpr std::array<std::string_view, 3> dashes{"", "6 3", "2 2"};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) switch (letter) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += letter;
    }
  return result;
}

struct Axis {
  double low, high;  // values
  double from, to;   // where they lie
  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// Steps of 1, 2 or 5 times a power of ten, about five of them.
double tick_distance(double range) {
  const double rough = range / 5, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

class Picture {
 public:
  Picture(double width, double height) {
    text_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + fixed(width, 0) + " " +
            fixed(height, 0) + "\" font-family=\"sans-serif\" font-size=\"12\">\n" +
            "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  }
  void line(double x1, double y1, double x2, double y2, std::string_view style) {
    text_ += "<line x1=\"" + fixed(x1, 1) + "\" y1=\"" + fixed(y1, 1) + "\" x2=\"" + fixed(x2, 1) +
             "\" y2=\"" + fixed(y2, 1) + "\" " + std::string(style) + "/>\n";
  }
  void label(double x, double y, std::string_view words, std::string_view anchor = "start") {
    text_ += "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" text-anchor=\"" +
             std::string(anchor) + "\">" + escaped(words) + "</text>\n";
  }
  void polyline(const std::vector<double>& values, const Axis& x, const Axis& y,
                const std::string& style) {
    text_ += "<polyline fill=\"none\" " + style + " points=\"";
    for (std::size_t i = 0; i < values.size(); ++i)
      text_ += fixed(x.at((static_cast<double>(i) + 0.5) / static_cast<double>(values.size())), 1) +
               "," + fixed(y.at(std::clamp(values[i], y.low, y.high)), 1) + " ";
    text_ += "\"/>\n";
  }
  void dot(double x, double y, std::string_view colour) {
    text_ += "<circle cx=\"" + fixed(x, 1) + "\" cy=\"" + fixed(y, 1) + "\" r=\"3.5\" fill=\"" +
             std::string(colour) + "\"/>\n";
  }
  void grid(const Axis& x, const Axis& y, int digits) {
    const double distance = tick_distance(y.high - y.low);
    for (double value = std::ceil(y.low / distance) * distance; value <= y.high;
         value += distance) {
      line(x.from, y.at(value), x.to, y.at(value), "stroke=\"#dddddd\"");
      label(x.from - 6, y.at(value) + 4, fixed(value, digits), "end");
    }
    line(x.from, y.from, x.to, y.from, "stroke=\"black\"");
    line(x.from, y.from, x.from, y.to, "stroke=\"black\"");
  }
  std::string finish() { return text_ + "</svg>\n"; }

 private:
  std::string text_;
};

std::string colour_of(std::size_t i) { return std::string(colours[i % colours.size()]); }
std::string stroke_of(std::size_t i) {
  return "stroke=\"" + colour_of(i) + "\" stroke-width=\"1.5\" stroke-dasharray=\"" +
         std::string(dashes[i / colours.size() % dashes.size()]) + "\"";
}

}  // namespace

std::string svg_picture(const std::vector<PolicySummary>& all, const std::string& title) {
  constexpr double width = 960, height = 420, top = 50, bottom = 370;
  Picture picture(width, height);
  picture.label(width / 2, 22, title, "middle");

  double low = 1e30, high = -1e30, worst = 1e30, best = -1e30;
  for (const PolicySummary& summary : all) {
    for (const double loss : summary.curve)
      if (std::isfinite(loss)) {
        low = (std::min)(low, loss);
        high = (std::max)(high, loss);
      }
    worst = (std::min)(worst, summary.accuracy.mean - summary.accuracy.deviation);
    best = (std::max)(best, summary.accuracy.mean + summary.accuracy.deviation);
  }
  const auto apart = [](double& from, double& to, double least) {
    const double room = (std::max)((to - from) * 0.05, least);
    from -= room;
    to += room;
  };
  apart(low, high, 1e-3);
  apart(worst, best, 2e-3);

  const Axis run{0, 1, 60, 520}, loss{low, high, bottom, top};
  picture.grid(run, loss, high - low < 0.1 ? 3 : 2);
  picture.label(60, 40, "training loss");
  picture.label(290, bottom + 20, "share of the run", "middle");
  for (std::size_t i = 0; i < all.size(); ++i)
    picture.polyline(all[i].curve, run, loss, stroke_of(i));

  const Axis places{0, static_cast<double>(all.size()), 590, 800}, hits{worst, best, bottom, top};
  picture.grid(places, hits, best - worst < 0.05 ? 3 : 2);
  picture.label(590, 40, "accuracy, held out: mean and deviation");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Spread& accuracy = all[i].accuracy;
    const double x = places.at(static_cast<double>(i) + 0.5);
    picture.line(x, hits.at(accuracy.mean - accuracy.deviation), x,
                 hits.at(accuracy.mean + accuracy.deviation), stroke_of(i));
    picture.dot(x, hits.at(accuracy.mean), colour_of(i));
    const double y = top + 18 * static_cast<double>(i);
    picture.line(816, y, 838, y, stroke_of(i));
    picture.dot(827, y, colour_of(i));
    picture.label(844, y + 4, all[i].policy);
  }
  return picture.finish();
}
