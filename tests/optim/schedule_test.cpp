// Schedules: known values at every border, exactly.

#include <soma/optim/schedule.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cmath>

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
    CHECK(Schedule{.decay = decay, .warmup = 5, .steps = 6}(5) == 1e-3);
  }
}
