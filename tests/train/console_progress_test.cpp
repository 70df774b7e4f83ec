// What a run's progress looks like on a stream.

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
