// The programs of this folder learn the same with soma's parts for data and by hand, and those
// parts make them as short as docs/data.md says.

#include "digits/digits.hpp"
#include "examples/home/programs.hpp"

#include <soma/numeric/draw_sequence.hpp>

#include "catch.hpp"
#include "io/samples.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>

using namespace soma;

namespace {

// Sines of a random pitch and phase with noise, of 6 to 30 measurements. Some cells are missing.
std::string made_series(std::size_t count, std::uint64_t seed) {
  std::string csv = "series,height,noise,pitch\n";
  DrawSequence draws({.seed = seed, .stream = stream_id("home", "series")});
  for (std::size_t i = 0; i < count; ++i) {
    const double pitch = 0.2 + draws.unit(), phase = 6 * draws.unit();
    const std::size_t length = 6 + draws.below(25);
    for (std::size_t t = 0; t < length; ++t) {
      const double height = std::sin(pitch * static_cast<double>(t) + phase) + 0.1 * draws.unit();
      csv += "s" + std::to_string(i) + ",";
      csv += draws.below(30) == 0 ? "" : std::to_string(height);
      csv += "," + std::to_string(draws.unit()) + "," + std::to_string(pitch) + "\n";
    }
  }
  return csv;
}

home::Pictures made_pictures(std::size_t count, std::uint64_t seed) {
  const digits::Digits made = digits::make_digits(count, seed);
  return {made.images, {made.labels.begin(), made.labels.end()}, digits::side};
}

// People who earn much or little, by three categories and two numbers, with noise.
std::string made_table(std::size_t count) {
  std::string csv = "work,age,school,hours,town,income\n";
  DrawSequence draws({.seed = 5, .stream = stream_id("home", "table")});
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t work = draws.below(7), school = draws.below(5), town = draws.below(12);
    const double age = 18 + 60 * draws.unit(), hours = 10 + 50 * draws.unit();
    const double score = (work * 5 % 7) / 3.0 + (school * 3 % 5) / 2.0 + (town % 3) / 2.0 +
                         hours / 30 - std::abs(age - 48) / 15 + 2 * draws.unit();
    csv += draws.below(40) == 0 ? "?" : "w" + std::to_string(work);
    csv += "," + (draws.below(40) == 0 ? std::string() : std::to_string(age));
    csv += ",s" + std::to_string(school) + "," + std::to_string(hours) + ",t" +
           std::to_string(town) + (score > 4.2 ? ",high\n" : ",low\n");
  }
  return csv;
}

// Lines of a program without those that are empty or comments.
std::size_t lines_of(const std::string& name) {
  std::ifstream file(std::string(SOMA_TEST_HOME) + "/" + name + ".cpp");
  REQUIRE(file);
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin != std::string::npos && line.compare(begin, 2, "//") != 0) ++lines;
  }
  return lines;
}

// Stops a run behind one of its steps.
struct Stopper final : train::Callback {
  void on_step(const train::StepInfo& info) override {
    if (info.step == 40) flag.request();
  }
  train::StopFlag flag;
};

double cpu_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

// Prints the CPU time of both versions: the median ratio of alternated runs.
template <class With, class ByHand>
void compare_times(const char* name, const With& with, const ByHand& by_hand) {
  std::vector<double> ratios, times;
  for (int i = 0; i < 9; ++i) {
    const double begin = cpu_seconds();
    with();
    const double between = cpu_seconds();
    by_hand();
    times.push_back(between - begin);
    ratios.push_back((between - begin) / (cpu_seconds() - between));
  }
  std::sort(times.begin(), times.end());
  std::sort(ratios.begin(), ratios.end());
  std::cout << name << ": " << times[4] << " s of CPU, " << ratios[4] << " of the time by hand ("
            << ratios.front() << " to " << ratios.back() << ")\n";
}

}  // namespace

TEST_CASE("series of unequal lengths take no source of one's own", "[unit]") {
  const std::string training = made_series(200, 1), held_out = made_series(80, 2);
  const double error = home::series(training, held_out);
  CHECK(error < 0.35);
  CHECK(std::abs(error - home::series_by_hand(training, held_out)) <= 0.002);
  CHECK(lines_of("series") <= 40);
}

TEST_CASE("shifted pictures take no source of one's own, and a break changes nothing", "[unit]") {
  const home::Pictures training = made_pictures(2000, 1), held_out = made_pictures(500, 2);
  const soma_test::TemporaryFolder folder;
  const home::Learned whole = home::pictures(training, held_out, {.checkpoints = folder / "whole"});
  CHECK(whole.accuracy > 0.75);

  Stopper stopper;
  const home::Run first{folder / "broken", &stopper, &stopper.flag};
  CHECK_FALSE(home::pictures(training, held_out, first).hash == whole.hash);
  CHECK(home::pictures(training, held_out, {.checkpoints = folder / "broken"}).hash == whole.hash);

  const home::Learned by_hand =
      home::pictures_by_hand(training, held_out, {.checkpoints = folder / "by_hand"});
  CHECK(std::abs(by_hand.accuracy - whole.accuracy) <= 0.002);
  CHECK(lines_of("pictures") <= 66);
}

TEST_CASE("codes, numbers and folds of a table take no loop of one's own", "[unit]") {
  const std::string csv = made_table(1000);
  const double area = home::table(csv);
  CHECK(area > 0.8);
  CHECK(std::abs(area - home::table_by_hand(csv)) <= 0.002);
  CHECK(lines_of("table") <= 57);
}

TEST_CASE("times of programs with soma's parts for data and by hand", "[.][times]") {
  const std::string training = made_series(200, 1), held_out = made_series(80, 2);
  compare_times(
      "series", [&] { home::series(training, held_out); },
      [&] { home::series_by_hand(training, held_out); });
  const home::Pictures images = made_pictures(2000, 1), test = made_pictures(500, 2);
  const auto run = [&](auto* program) {
    const soma_test::TemporaryFolder folder;
    program(images, test, {.checkpoints = folder.path()});
  };
  compare_times(
      "pictures", [&] { run(home::pictures); }, [&] { run(home::pictures_by_hand); });
  const std::string csv = made_table(1000);
  compare_times(
      "table", [&] { home::table(csv); }, [&] { home::table_by_hand(csv); });
}
