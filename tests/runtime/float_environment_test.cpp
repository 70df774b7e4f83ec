// FloatEnvironment: the default modes inside, the host's back outside, on every thread that runs
// tasks.

#include <soma/soma.hpp>

#include "catch.hpp"

#include <atomic>
#include <cfenv>

using namespace soma;

namespace {

// Asked of the arithmetic itself: fegetround reads the x87 unit, which soma neither uses nor sets.
bool rounds_to_nearest() {
  volatile float one = 1, little = 0x1p-30f;
  return one + little == one && one - little == one;
}

}  // namespace

TEST_CASE("modes are set inside tasks and restored outside", "[unit]") {
  auto context = make_context({.threads = 3});
  REQUIRE(std::fesetround(FE_UPWARD) == 0);
  std::atomic<int> nearest{0};
  parallel(context, 12, [&](int) { nearest += rounds_to_nearest(); });
  parallel(context, 1, [&](int) { nearest += rounds_to_nearest(); });
  const int after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  CHECK(nearest == 13);
  CHECK(after == FE_UPWARD);
}

TEST_CASE("exceptions leave the modes as they were", "[unit]") {
  auto context = make_context({.threads = 2});
  REQUIRE(std::fesetround(FE_DOWNWARD) == 0);
  int caught = 0, after = 0;
  for (const int tasks : {1, 5}) {
    try {
      parallel(context, tasks, [](int) { throw 1; });
    } catch (int) {
      ++caught;
    }
    after = std::fegetround();
  }
  std::fesetround(FE_TONEAREST);
  CHECK(caught == 2);
  CHECK(after == FE_DOWNWARD);
}

TEST_CASE("flags that the library raises stay inside", "[unit]") {
  std::feclearexcept(FE_ALL_EXCEPT);
  {
    const FloatEnvironment environment;
    volatile float zero = 0, quotient = 1 / zero;
    (void)quotient;
  }
  CHECK(std::fetestexcept(FE_DIVBYZERO) == 0);
}
