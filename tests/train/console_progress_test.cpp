// The appearance of a run's progress on a stream.

#include <soma/train/console_progress.hpp>

#include "catch.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

using namespace soma::train;

TEST_CASE("the mean loss goes on over steps without a finite one", "[unit][trainer]") {
  std::ostringstream stream;
  ConsoleProgress progress(stream, {.steps_between = 1});
  progress.on_start({.steps = 100});
  const double nan = std::nan("");
  std::vector<std::string> shown;
  std::uint64_t step = 0;
  for (const double loss : {nan, 2.0, nan, HUGE_VAL, 1.0}) {
    stream.str("");
    progress.on_step({.step = ++step, .loss = loss, .skipped = !std::isfinite(loss)});
    const std::string line = stream.str();
    const std::size_t at = line.find("loss ") + 5;
    shown.push_back(line.substr(at, line.find(' ', at) - at));
  }
  // 2 + 0.05 (1 - 2)
  CHECK(shown == std::vector<std::string>{"nan", "2.0000", "2.0000", "2.0000", "1.9500"});
}

TEST_CASE("a model that predicts one class only is told, and what that is worth",
          "[unit][trainer]") {
  soma::metrics::Classification metrics(2);
  const auto add = [&](std::vector<float> scores, std::int64_t label) {
    metrics.add(scores, label);
  };
  for (int i = 0; i < 15; ++i) add({2, 1}, 0);
  add({2, 1}, 1);
  Report report;
  report.take({.values = metrics.values(), .metrics = metrics});
  const std::string line = "one class only; always guessing the most frequent one gets 0.9375\n";
  CHECK(to_string(report).find("  predictions       " + line) != std::string::npos);
  std::ostringstream stream;
  ConsoleProgress progress(stream);
  const soma::metrics::Values values = metrics.values();
  progress.on_evaluation({.step = 3, .metrics = &metrics, .values = &values});
  CHECK(stream.str().find("  predicts " + line) != std::string::npos);
  // Which value chose the weights.
  CHECK(to_string(report).find("of the best evaluation") == std::string::npos);
  report.best_metric = "macro_f1";
  CHECK(to_string(report).find("  weights           of the best evaluation, by macro F1\n") !=
        std::string::npos);
  report.best_metric = "loss";
  CHECK(to_string(report).find("evaluation, by validation loss\n") != std::string::npos);

  add({1, 2}, 1);
  report.take({.values = metrics.values(), .metrics = metrics});
  CHECK(to_string(report).find("one class only") == std::string::npos);
}

TEST_CASE("a share of the peak above all of it is not a share", "[unit][trainer]") {
  const auto line_of = [](double peak) {
    std::ostringstream stream;
    ConsoleProgress progress(stream, {.peak_gflops = peak, .steps_between = 1});
    progress.on_start({.steps = 100});
    progress.on_step({.step = 1, .tokens = 64, .seconds = 0.5, .useful_flops = 1e9});
    return stream.str();
  };
  CHECK(line_of(4).find("2 GFLOP/s (50 % of peak)") != std::string::npos);
  CHECK(line_of(2).find("2 GFLOP/s (100 % of peak)") != std::string::npos);
  CHECK(line_of(1).find("2 GFLOP/s (peak not known: the machine was busy)") != std::string::npos);
  CHECK(line_of(0).find("peak") == std::string::npos);
}
