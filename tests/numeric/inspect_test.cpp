// Counts of the effects of a format on numbers.

#include <soma/numeric/formats.hpp>
#include <soma/numeric/inspect.hpp>

#include "catch.hpp"

#include <cmath>
#include <limits>
#include <vector>

using namespace soma;

TEST_CASE("every fate of a number is counted", "[unit]") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{
      0,        -0.0f,        1,   1.0625f,  // exact, exact, exact, moves
      0x1p-11f, -0x1p-9f,     300, -1e30f,   // lost, subnormal, cut off twice
      infinity, std::nanf("")};
  const numeric::Inspection found = numeric::inspect(values, formats::fp8_e4m3);
  CHECK(found.count == 10);
  CHECK(found.zeros == 2);
  CHECK(found.infinities == 1);
  CHECK(found.nans == 1);
  CHECK(found.exact == 4);  // both zeros, 1 and 2^-9
  CHECK(found.underflow == 1);
  CHECK(found.subnormal == 1);
  CHECK(found.saturated == 2);
  CHECK(found.largest == double{1e30f});
  CHECK(found.smallest == 0x1p-11);
  CHECK(found.exponents[0 - numeric::Inspection::least_exponent] == 2);  // 1 and 1.0625
  CHECK(found.exponents[8 - numeric::Inspection::least_exponent] == 1);  // 300
  CHECK(found.share(found.underflow) == 1.0 / 8);
}

TEST_CASE("a scale moves the range, and noise is as large as rounding makes it", "[unit]") {
  std::vector<float> values;
  for (int i = 1; i <= 1000; ++i) values.push_back(static_cast<float>(i) * 0x1p-20f);
  const numeric::Inspection lost = numeric::inspect(values, formats::fp8_e4m3);
  const numeric::Inspection kept = numeric::inspect(values, formats::fp8_e4m3, 0x1p-17f);
  CHECK(lost.underflow == 1000);  // all below 2^-10
  CHECK(kept.underflow == 0);
  CHECK(kept.saturated == 0);
  double squares = 0, moved = 0;
  for (const float value : values) {
    const double to =
        double{decode(formats::fp8_e4m3, encode(formats::fp8_e4m3, value * 0x1p17f))} * 0x1p-17;
    squares += double{value} * double{value};
    moved += (to - double{value}) * (to - double{value});
  }
  CHECK(std::abs(kept.signal_to_noise() - 10 * std::log10(squares / moved)) < 1e-9);
}

TEST_CASE("two inspections add up to that of all numbers", "[unit]") {
  const std::vector<float> a{0, 1, 3e5f}, b{1e-20f, 7}, all{0, 1, 3e5f, 1e-20f, 7};
  numeric::Inspection sum = numeric::inspect(a, formats::fp16);
  sum += numeric::inspect(b, formats::fp16);
  const numeric::Inspection whole = numeric::inspect(all, formats::fp16);
  CHECK(sum.count == whole.count);
  CHECK(sum.exact == whole.exact);
  CHECK(sum.underflow == whole.underflow);
  CHECK(sum.saturated == whole.saturated);
  CHECK(sum.largest == whole.largest);
  CHECK(sum.smallest == whole.smallest);
  CHECK(sum.squares == whole.squares);
  CHECK(sum.exponents == whole.exponents);
  numeric::Inspection empty;
  empty += whole;
  CHECK(empty.smallest == whole.smallest);
}

TEST_CASE("what an update left where it was", "[unit]") {
  const std::vector<float> before{1, 2, 3}, after{1, 2.5f, 3};
  CHECK(numeric::unmoved(before, after) == 2);
}
