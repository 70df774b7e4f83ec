// Schedules: known values at every border, exactly.

#include <soma/optim/schedule.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using optim::Decay;
using optim::Schedule;

TEST_CASE("the rate rises in a straight line over the warm-up", "[unit][optim]") {
  for (const double rate : {1e-3, 0.1, 3e-5})
    for (const std::uint64_t warmup : {1u, 3u, 10u, 49u, 1000u}) {
      const Schedule schedule{.rate = rate, .warmup = warmup};
      CHECK(schedule(0) == rate * (1 / static_cast<double>(warmup)));
      CHECK(schedule(warmup - 1) == rate);
      CHECK(schedule(warmup) == rate);
      CHECK(schedule(warmup + 1000000) == rate);
      for (std::uint64_t step = 1; step < warmup; ++step)
        CHECK(schedule(step) > schedule(step - 1));
    }
  CHECK(Schedule{.rate = 0.5, .warmup = 4}(1) == 0.25);
  CHECK(Schedule{.rate = 0.5}(0) == 0.5);
}

TEST_CASE("a falling rate begins at the top and ends exactly", "[unit][optim]") {
  for (const Decay decay : {Decay::linear, Decay::cosine})
    for (const double ratio : {0.0, 0.1, 0.3, 1.0}) {
      const Schedule schedule{
          .rate = 0.3, .decay = decay, .warmup = 7, .steps = 107, .final_ratio = ratio};
      CHECK(schedule(6) == 0.3);
      CHECK(schedule(7) == 0.3);
      CHECK(schedule(107) == 0.3 * ratio);
      CHECK(schedule(~std::uint64_t{0}) == 0.3 * ratio);
      CHECK(std::fabs(schedule(57) - 0.3 * (1 + ratio) / 2) < 0x1p-52);  // half of the way
      if (ratio == 1) continue;
      for (std::uint64_t step = 8; step <= 107; ++step) CHECK(schedule(step) < schedule(step - 1));
      CHECK(schedule(106) > 0.3 * ratio);  // the last step still moves
    }
  // 1/4 of the way down a cosine: (1 + sqrt(1/2)) / 2.
  const Schedule cosine{.rate = 1, .decay = Decay::cosine, .steps = 8};
  CHECK(std::fabs(cosine(2) - (1 + std::sqrt(0.5)) / 2) < 0x1p-52);
  const Schedule linear{.rate = 1, .decay = Decay::linear, .steps = 8};
  for (std::uint64_t step = 0; step <= 8; ++step)
    CHECK(linear(step) == 1 - static_cast<double>(step) / 8);
}

TEST_CASE("a falling schedule needs steps to fall over", "[unit][optim]") {
  for (const Decay decay : {Decay::linear, Decay::cosine}) {
    CHECK(soma_test::message_of([&] { Schedule{.decay = decay, .warmup = 5, .steps = 5}(0); }) ==
          "Schedule: steps is 5, wanted more than the warm-up, 5 [operator.value]");
    CHECK(soma_test::id_of([&] { Schedule{.decay = decay}(3); }) == "operator.value");
    CHECK(Schedule{.rate = 1e-3, .decay = decay, .warmup = 5, .steps = 6}(5) == 1e-3);
  }
}

TEST_CASE("a rate that falls by a factor", "[unit][optim]") {
  const Schedule steps{.rate = 0.8, .decay = Decay::step, .warmup = 2, .every = 3, .factor = 0.5};
  const double wanted[] = {0.4, 0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2};
  for (std::uint64_t step = 0; step < 9; ++step) CHECK(steps(step) == wanted[step]);
  const Schedule smooth{.rate = 0.8, .decay = Decay::exponential, .every = 4, .factor = 0.25};
  CHECK(smooth(0) == 0.8);
  CHECK(std::fabs(smooth(2) - 0.4) < 0x1p-52);
  CHECK(smooth(4) == 0.2);
  CHECK(smooth(8) == 0.05);
  for (std::uint64_t step = 1; step < 40; ++step)
    CHECK(std::fabs(smooth(step) / (0.8 * std::pow(0.25, static_cast<double>(step) / 4)) - 1) <
          0x1p-50);
  // As PyTorch's ExponentialLR: a factor for each step.
  CHECK(std::fabs(Schedule{.rate = 1, .decay = Decay::exponential, .factor = 0.9}(10) -
                  std::pow(0.9, 10)) < 0x1p-52);
}

TEST_CASE("a rate that falls where evaluations do not improve", "[unit][optim]") {
  const Schedule schedule{.rate = 0.8,
                          .decay = Decay::plateau,
                          .warmup = 2,
                          .final_ratio = 0.2,
                          .factor = 0.5,
                          .patience = 2};
  CHECK(schedule(0, 0) == 0.4);
  CHECK(schedule(5, 0) == 0.8);
  CHECK(schedule(5, 1) == 0.4);
  CHECK(schedule(5, 2) == 0.2);
  CHECK(std::fabs(schedule(5, 3) - 0.16) < 0x1p-54);  // not below final_ratio
  optim::Plateau plateau;
  const auto after = [&](double value) {
    plateau.add(value, schedule.patience);
    return plateau.reductions;
  };
  CHECK(after(std::nan("")) == 0);  // worse than anything
  CHECK(after(1) == 0);             // the best so far
  CHECK(after(0.5) == 0);
  CHECK(after(1) == 1);  // equal: the second without an improvement
  CHECK(after(0.75) == 1);
  CHECK(after(2) == 1);
  CHECK(after(1.5) == 1);
  CHECK(after(std::nan("")) == 2);
}

TEST_CASE("a plateau may be flat, or wiggle below the threshold", "[unit][optim]") {
  // The reductions after each value.
  const auto reductions = [](const std::vector<double>& values, double threshold) {
    optim::Plateau plateau;
    std::vector<std::uint64_t> made;
    for (const double value : values) {
      plateau.add(value, 2, threshold);
      made.push_back(plateau.reductions);
    }
    return made;
  };
  using Made = std::vector<std::uint64_t>;
  CHECK(Schedule{}.threshold == 1e-4);
  for (const double value : {0.85, -0.85, 0.0})
    CHECK(reductions(std::vector<double>(7, value), 1e-4) == Made{0, 0, 1, 1, 2, 2, 3});
  // 2^-20 more each time is an improvement of none by the threshold of 2^-13, and of all by 0.
  std::vector<double> rising(7), falling(7);
  for (std::size_t i = 0; i < rising.size(); ++i) {
    rising[i] = 1 + 0x1p-20 * static_cast<double>(i);
    falling[i] = -1 + 0x1p-20 * static_cast<double>(i);  // scores of a loss
  }
  for (const std::vector<double>& values : {rising, falling}) {
    CHECK(reductions(values, 0x1p-13) == Made{0, 0, 1, 1, 2, 2, 3});
    CHECK(reductions(values, 0) == Made(7, 0));
  }
  // An improvement is one against the best, not against the value before; the threshold itself is
  // none. 1 + 2^-13 is exact.
  CHECK(reductions({1, 1 + 0x1p-14, 1 + 0x1.8p-13, 1 + 0x1.8p-13}, 0x1p-13) == Made{0, 0, 0, 0});
  CHECK(reductions({1, 1 + 0x1p-13, 1 + 0x1p-13, 1 + 0x1p-12}, 0x1p-13) == Made{0, 0, 1, 1});
  CHECK(reductions({-1, -1 + 0x1p-13, -1 + 0x1p-13}, 0x1p-13) == Made{0, 0, 1});
  CHECK(reductions({-1, -1 + 0x1p-12, -1 + 0x1p-12}, 0x1p-13) == Made{0, 0, 0});
  // From a loss that is infinite, every number is an improvement.
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(reductions({-infinity, -infinity, -5, -4, -4, -4}, 1e-4) == Made{0, 0, 0, 0, 0, 1});
  CHECK(reductions({infinity, infinity, infinity}, 1e-4) == Made{0, 0, 1});
}

TEST_CASE("a schedule's numbers have their ranges", "[unit][optim]") {
  const auto refused = [](const Schedule& schedule) {
    return soma_test::message_of([&] { schedule(0); });
  };
  CHECK(refused({}) == "Schedule: rate is none, wanted the learning rate [operator.value]");
  CHECK(refused({.rate = -1}) ==
        "Schedule: rate is -1, wanted a finite number from 0 [operator.value]");
  CHECK(refused({.rate = 1, .final_ratio = 2}).find("final_ratio is 2") != std::string::npos);
  CHECK(refused({.rate = 1, .every = 0}).find("every is 0") != std::string::npos);
  CHECK(refused({.rate = 1, .factor = 0}).find("factor is 0") != std::string::npos);
  CHECK(refused({.rate = 1, .factor = std::nan("")}).find("factor is ") != std::string::npos);
  CHECK(refused({.rate = 1, .patience = 0}).find("patience is 0") != std::string::npos);
  CHECK(refused({.rate = 1, .threshold = -1e-4}).find("threshold is ") != std::string::npos);
  CHECK(refused({.rate = 1, .threshold = std::nan("")}).find("threshold is ") != std::string::npos);
}

TEST_CASE("milestones lower the rate once each", "[unit][optim]") {
  const Schedule schedule{
      .rate = 2, .decay = Decay::milestones, .warmup = 4, .factor = 0.5, .milestones = {3, 10}};
  CHECK(schedule(0) == 0.5);
  CHECK(schedule(6) == 2);
  CHECK(schedule(7) == 1);  // the third step since the warm-up
  CHECK(schedule(13) == 1);
  CHECK(schedule(14) == 0.5);
  CHECK(schedule(1000) == 0.5);
  CHECK(soma_test::message_of([] {
          Schedule{.rate = 1, .decay = Decay::milestones, .milestones = {5, 5}}(0);
        }) == "Schedule: milestones is 5 behind 5, wanted ascending steps [operator.value]");
}

// Figures of PyTorch 2.15: OneCycleLR with max_lr 0.5, total_steps 20, pct_start 0.25, div_factor
// 25 and final_div_factor 100.
TEST_CASE("one cycle has PyTorch's learning rates", "[unit][optim]") {
  const Schedule schedule{
      .rate = 0.5, .decay = Decay::one_cycle, .warmup = 5, .steps = 20, .final_ratio = 0.0004};
  const double figures[] = {0.02,
                            0.0902943725152286,
                            0.26,
                            0.4297056274847714,
                            0.5,
                            0.494539085423378,
                            0.4783950098648859,
                            0.4522733468942994,
                            0.4173157385290787,
                            0.37505,
                            0.3273233468942994,
                            0.2762216629705866,
                            0.2239783370294134,
                            0.1728766531057007,
                            0.1251500000000001,
                            0.0828842614709214,
                            0.0479266531057007,
                            0.021804990135114,
                            0.005660914576622,
                            0.0002};
  for (std::size_t step = 0; step < std::size(figures); ++step) {
    INFO(step);
    CHECK(std::fabs(schedule(step) - figures[step]) < 1e-13);
  }
  CHECK(schedule(4) == 0.5);
  CHECK(schedule(25) == schedule(19));
  // Without a warm-up it only falls.
  const Schedule falls{.rate = 1, .decay = Decay::one_cycle, .steps = 4};
  for (std::uint64_t step = 1; step < 4; ++step) CHECK(falls(step) < falls(step - 1));
  CHECK(falls(3) == 0);
  CHECK(soma_test::id_of([] { Schedule{.rate = 1, .decay = Decay::one_cycle}(0); }) ==
        "operator.value");
}

// CosineAnnealingWarmRestarts with T_0 4, T_mult 2, eta_min 0.05 at a rate of 0.5.
TEST_CASE("cosines that start anew have PyTorch's learning rates", "[unit][optim]") {
  const Schedule schedule{
      .rate = 0.5, .decay = Decay::warm_restarts, .final_ratio = 0.1, .every = 4, .growth = 2};
  const double figures[] = {0.5,
                            0.4340990257669732,
                            0.275,
                            0.1159009742330268,
                            0.5,
                            0.4828728948150395,
                            0.4340990257669732,
                            0.3611037722821452,
                            0.275,
                            0.1888962277178548,
                            0.1159009742330268,
                            0.0671271051849605,
                            0.5,
                            0.4956766880907268,
                            0.4828728948150395,
                            0.4620806627680727,
                            0.4340990257669732,
                            0.4000033024294105,
                            0.3611037722821452,
                            0.3188953224536289,
                            0.275,
                            0.2311046775463712,
                            0.1888962277178548,
                            0.1499966975705896,
                            0.1159009742330268,
                            0.0879193372319273,
                            0.0671271051849605,
                            0.0543233119092732,
                            0.5,
                            0.4989165635012443};
  for (std::size_t step = 0; step < std::size(figures); ++step) {
    INFO(step);
    CHECK(std::fabs(schedule(step) - figures[step]) < 1e-13);
  }
  CHECK(schedule(4) == 0.5);
  CHECK(schedule(12) == 0.5);
  CHECK(schedule(28) == 0.5);
  const Schedule even{.rate = 1, .decay = Decay::warm_restarts, .warmup = 2, .every = 3};
  CHECK(even(2) == 1);
  CHECK(even(3000002) == 1);
  CHECK(even(~std::uint64_t{0}) > 0);
}

TEST_CASE("a function of the host's own is a factor with a name", "[unit][optim]") {
  const double share = 0.25;
  Schedule schedule = Schedule::of([share](std::uint64_t step) { return step < 3 ? 1.0 : share; },
                                   "quarter from 3");
  CHECK(soma_test::id_of([&] { schedule(0); }) == "operator.value");  // no rate yet
  schedule.rate = 0.5;
  schedule.warmup = 2;
  CHECK(schedule(0) == 0.25);
  CHECK(schedule(4) == 0.5);
  const Schedule copy = schedule;  // functions are copied with their values
  schedule = {};
  CHECK(copy(5) == 0.125);
  CHECK(copy.name == "quarter from 3");
  CHECK(soma_test::id_of([] { Schedule::of([](std::uint64_t) { return 1.0; }, ""); }) ==
        "operator.value");
  CHECK(soma_test::id_of([] { Schedule::of({}, "none"); }) == "operator.value");
  CHECK(soma_test::id_of([] { Schedule{.rate = 1, .decay = Decay::own}(0); }) == "operator.value");
  Schedule below = Schedule::of([](std::uint64_t) { return -1.0; }, "below");
  below.rate = 1;
  CHECK(soma_test::message_of([&] { below(7); }) ==
        "Schedule: \"below\" is -1.0 at step 7, wanted a finite number, at least 0 "
        "[operator.value]");
}
