// Uniform, normal and Bernoulli draws: the definition, the same bits everywhere, and the
// distribution.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/samples.hpp"

#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <vector>

using namespace soma;

TEST_CASE("draws are the same on every target, for any threads and any cut", "[unit][invariance]") {
  const Draw draw{.seed = 42, .stream = 7, .step = 3, .index = (std::uint64_t{1} << 34) - 6};
  const std::size_t count = 100003;
  std::vector<float> uniform(count), normal(count), bernoulli(count);
  {
    auto context = make_context({.threads = 1});
    fill_uniform(context, uniform, draw);
    fill_normal(context, normal, draw);
    fill_bernoulli(context, bernoulli, draw, 0.3);
  }
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    for (const int threads : {1, 2, 3, 7}) {
      auto context = make_context({.threads = threads, .target = target.name});
      for (const std::size_t start : std::vector<std::size_t>{0, 1, 2, 3, 5, 1023}) {
        std::vector<float> out(count - start);
        Draw shifted = draw;
        shifted.index += start;
        const auto same = [&](const std::vector<float>& whole) {
          return std::memcmp(out.data(), whole.data() + start, out.size() * sizeof(float)) == 0;
        };
        INFO(std::string(target.name) << ", " << threads << " threads, from " << start);
        fill_uniform(context, out, shifted);
        CHECK(same(uniform));
        fill_normal(context, out, shifted);
        CHECK(same(normal));
        fill_bernoulli(context, out, shifted, 0.3);
        CHECK(same(bernoulli));
      }
    }
  }
}

TEST_CASE("draws follow their definition", "[unit]") {
  auto context = make_context();
  const Draw draw{.seed = 9, .stream = 1, .step = 2, .index = (std::uint64_t{1} << 34) - 6};
  const std::size_t count = 20002;
  std::vector<float> uniform(count), normal(count), bernoulli(count);
  fill_uniform(context, uniform, draw);
  fill_normal(context, normal, draw);
  fill_bernoulli(context, bernoulli, draw, 0.25);
  double worst = 0;
  bool exact = true;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = random_word(draw, i);
    exact = exact && uniform[i] == static_cast<float>(word >> 8) * 0x1p-24f;
    exact = exact && bernoulli[i] == (word < 0x40000000u ? 1.0f : 0.0f);
    // Pairs lie on even indices.
    const std::uint64_t index = draw.index + i;
    Draw pair = draw;
    pair.index = index / 2 * 2;
    const auto odd = static_cast<float>((random_word(pair) >> 1) | 1);
    const double radius = std::sqrt(-2 * std::log(static_cast<double>(odd) * 0x1p-31));
    if (radius == 0) {
      exact = exact && normal[i] == 0;
      continue;
    }
    const double angle =
        2 * std::numbers::pi * static_cast<double>(random_word(pair, 1) >> 8) * 0x1p-24;
    const double value = radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
    worst = (std::max)(worst, std::fabs(normal[i] - value) / radius);
  }
  CHECK(exact);
  // fp32 throughout: the radius is within 3 units in the last place (log, square root, rounding of
  // the integer), sine and cosine within 2^-23 of the unit circle each, the product half a unit: (3
  // + 2 + 0.5) * 2^-24 of the radius, rounded up.
  CHECK(worst < 8 * 0x1p-24);
}

TEST_CASE("normal draws are normal", "[stat]") {
  auto context = make_context();
  const std::size_t count = std::size_t{1} << 22;
  std::vector<float> values(count);
  fill_normal(context, values, {.seed = 2026});
  // Chi-square over 64 cells of equal probability, 63 degrees of freedom: above 125 with
  // probability 6e-6.
  std::vector<double> cells(64);
  double sum = 0, squares = 0;
  for (const float x : values) {
    const double p = 0.5 * std::erfc(-static_cast<double>(x) / std::numbers::sqrt2);
    cells[(std::min)(std::size_t{63}, static_cast<std::size_t>(p * 64))] += 1;
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  const double expected = static_cast<double>(count) / 64;
  double chi_square = 0;
  for (const double seen : cells) chi_square += (seen - expected) * (seen - expected) / expected;
  CHECK(chi_square < 125);
  // Mean and variance: standard errors 1 / sqrt(n) and sqrt(2 / n); five of them have a false-alarm
  // rate of 6e-7.
  const double n = static_cast<double>(count);
  CHECK(std::fabs(sum / n) < 5 / std::sqrt(n));
  CHECK(std::fabs(squares / n - 1) < 5 * std::sqrt(2 / n));
}

TEST_CASE("Bernoulli takes probabilities from 0 to 1", "[unit]") {
  auto context = make_context();
  std::vector<float> out(1000, -1);
  fill_bernoulli(context, out, {}, 0);
  CHECK(std::vector<float>(1000, 0) == out);
  fill_bernoulli(context, out, {}, 1);
  CHECK(std::vector<float>(1000, 1) == out);
  for (const double wrong : {-0.1, 1.1, std::nan("")}) {
    try {
      fill_bernoulli(context, out, {}, wrong);
      FAIL("accepted " << wrong);
    } catch (const Error& error) {
      CHECK(error.id() == error_id::probability);
    }
  }
  CHECK(std::vector<float>(1000, 1) == out);
}
