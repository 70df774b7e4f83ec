// Layer norm of rows whose numbers are equal or nearly equal, where the rounding of a mean is as
// large as what a row has to say, and of rows that sums find hard.

#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "norm_case.hpp"
#include "support/table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

float moved(float value, int steps) {  // so many floats up or down
  for (; steps > 0; --steps) value = std::nextafter(value, infinity);
  for (; steps < 0; ++steps) value = std::nextafter(value, -infinity);
  return value;
}

}  // namespace

TEST_CASE("layer norm of equal numbers is beta, and gradients know it", "[unit][norm]") {
  auto any = make_context();
  const std::vector<float> all = {0.0f,        0.1f,   -0.7f,   3.3f,    1234.567f, 100000.7f,
                                  16777217.0f, -1e10f, 1.1e15f, 1.2e33f, 1e-40f,    0x1.fffffep9f};
  const std::vector<float> few = {0.1f, 1234.567f};
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : {1, 2, 3, 5, 16, 100, 768, 1000, 4096, 32768, 100003, 1 << 20})
      for (const float value : columns < 4096 ? all : few) {
        NormCase c(1, columns, false, true);
        c.args.epsilon = 1e-12f;
        std::fill(c.x.begin(), c.x.end(), value);
        target.kernels->norm.forward(c.args);
        target.kernels->norm.backward(c.args);
        target.kernels->norm.backward_parameters(c.args);
        INFO(std::string(target.name)
             << ": " << columns << " times " << value << ": mean " << c.mean[0]);
        CHECK(same_bits(c.y, c.beta));
        CHECK(c.mean[0] == value);
        CHECK(c.rstd[0] == 1 / std::sqrt(1e-12f));
        CHECK(same_bits(c.dgamma, std::vector<float>(columns)));
        CHECK(backward_excess(c) <= 1);
      }
}

TEST_CASE("a row of one column has no gradient", "[unit][norm]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    NormCase c(50, 1, false, true, 1000);
    c.args.epsilon = 1e-12f;
    target.kernels->norm.forward(c.args);
    target.kernels->norm.backward(c.args);
    INFO(std::string(target.name));
    CHECK(c.y == std::vector<float>(50, c.beta[0]));
    CHECK(c.dx == std::vector<float>(50, 0));
  }
}

static void hard_rows(Table table) {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : entries<std::size_t>(
             table, {2, 3, 17, 100, 768, 40000}, {2, 3, 17, 100, 768, 4096, 40000, 1 << 20}))
      for (const float epsilon : {0.0f, 1e-12f, 1e-5f})
        for (const float value : {0.1f, 1.0f, 1234.567f, -1e10f}) {
          if (columns >= 40000 && value != 1234.567f) continue;
          if (columns > 40000 && epsilon != 1e-12f) continue;
          for (const char* kind : {"some floats apart", "one float apart", "one is far",
                                   "the first is huge", "two values", "alternating signs"}) {
            NormCase c(1, columns, false, true);
            c.args.epsilon = epsilon;
            const std::string name = kind;
            for (std::size_t i = 0; i < columns; ++i) {
              const std::uint32_t word = random_word({.seed = 3}, i);
              float& x = c.x[i];
              x = value;
              if (name == "some floats apart") x = moved(value, static_cast<int>(word % 9) - 4);
              if (name == "one float apart" && i == columns / 2) x = moved(value, 1);
              if (name == "one is far" && i == columns - 1) x = value * 1.25f;
              if (name == "the first is huge") x = i == 0 ? value * 1e6f : c.dy[i];
              if (name == "two values") x = i % 3 == 0 ? moved(value, -1) : moved(value, 1);
              if (name == "alternating signs") x = i % 2 == 0 ? value : -value;
            }
            // Rows of equal numbers have no rstd without epsilon.
            if (epsilon == 0 &&
                std::all_of(c.x.begin(), c.x.end(), [&](float x) { return x == c.x.front(); }))
              continue;
            for (const bool rms : {false, true}) {
              c.args.rms = rms;
              c.args.mean = rms ? nullptr : c.mean.data();
              target.kernels->norm.forward(c.args);
              INFO(std::string(target.name) << ": " << columns << " columns, " << name << ", "
                                            << value << ", epsilon " << epsilon << ", rms " << rms);
              CHECK(forward_excess(c) <= 1);
            }
          }
        }
}

TEST_CASE("norms of rows that sums find hard keep their bounds", "[unit][norm]") {
  hard_rows(Table::part);
}
TEST_CASE("norms of rows that sums find hard keep their bounds: all", "[slow][norm]") {
  hard_rows(Table::whole);
}

TEST_CASE("sums above all numbers make a row NaN", "[unit][norm]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const float value : {3e38f, infinity, -infinity}) {
      NormCase c(1, 40, false, true);
      std::fill(c.x.begin(), c.x.end(), value);
      target.kernels->norm.forward(c.args);
      CHECK(std::all_of(c.y.begin(), c.y.end(), [](float y) { return std::isnan(y); }));
    }
}
