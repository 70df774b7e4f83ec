// Schedules: known values at every border, exactly.

#include <soma/optim/schedule.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <cstdint>
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
