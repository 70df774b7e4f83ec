// These tests check P@k, nDCG@k and PSP@k on points that are counted by hand.

#include <soma/metrics/ranking.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

using namespace soma;
using soma_test::id_of;

namespace {

using Ids = std::vector<std::int32_t>;

// A rounding of a double for each of some ten operations.
bool close(double a, double b) { return std::abs(a - b) <= 16 * 0x1p-53 * std::abs(b); }

}  // namespace

TEST_CASE("precision and gain of ranked classes", "[unit][metrics]") {
  metrics::Ranking ranking;
  CHECK(std::isnan(ranking.precision(0)));
  ranking.add(Ids{4, 7, 1, 0, 9}, Ids{1, 4, 5});  // ranks 1 and 3 are right
  ranking.add(Ids{3, 2, 8, 6, 5}, Ids{2});        // rank 2
  ranking.add(Ids{3, 2}, Ids{});                  // no label can be found
  ranking.add(Ids{3}, Ids{1, 2, 3, 4, 5, 6});     // fewer classes than ranks
  CHECK(ranking.points() == 4);
  CHECK(ranking.precision(0) == 2.0 / 4);
  CHECK(close(ranking.precision(1), (2 + 1 + 0 + 1) / 3.0 / 4));
  CHECK(close(ranking.precision(2), (2 + 1 + 0 + 1) / 5.0 / 4));
  const double two = 1 / std::log2(3.0), three = 1 / std::log2(4.0), four = 1 / std::log2(5.0),
               five = 1 / std::log2(6.0);
  CHECK(close(ranking.ndcg(0), (1 + 0 + 0 + 1) / 4.0));
  CHECK(
      close(ranking.ndcg(1), ((1 + three) / (1 + two + three) + two + 1 / (1 + two + three)) / 4));
  CHECK(close(ranking.ndcg(2),
              ((1 + three) / (1 + two + three) + two + 1 / (1 + two + three + four + five)) / 4));
  CHECK(std::isnan(ranking.psp(0)));
  const metrics::Values values = ranking.values();
  REQUIRE(values.size() == 5);
  CHECK(values[0].title == "P@1");
  CHECK(metrics::find(values, "ndcg_at_5")->value == ranking.ndcg(2));
}

TEST_CASE("rare classes count for more by their propensities", "[unit][metrics]") {
  // Computed by Python: 1 + (ln 1000 - 1) 2.5^0.55 (n + 1.5)^-0.55 for n = 0, 1, 10, 500.
  const std::vector<std::uint32_t> counts{0, 1, 10, 500};
  const std::vector<float> inverse = metrics::inverse_propensities(counts, 1000);
  const double expected[] = {8.824188577703566, 6.907755278982138, 3.5521470235083683,
                             1.3199930059919658};
  REQUIRE(inverse.size() == 4);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(std::abs(static_cast<double>(inverse[i]) - expected[i]) < expected[i] * 0x1p-23);
  // So few points that ln N - 1 is negative: no class is worth less than 1.
  CHECK(metrics::inverse_propensities(counts, 2) == std::vector<float>(4, 1.0f));

  metrics::Ranking ranking({8, 4, 2, 1});
  ranking.add(Ids{3, 0, 2}, Ids{0, 3});        // 1, 9 and 9 where 8, 9 and 9 is most
  ranking.add(Ids{2, 3, 1, 0}, Ids{0, 1, 2});  // 2, 6 and 14 of 8, 14 and 14
  ranking.add(Ids{2}, Ids{});
  CHECK(close(ranking.psp(0), (1 + 2) / 16.0));
  CHECK(close(ranking.psp(1), (9 + 6) / 23.0));
  CHECK(close(ranking.psp(2), (9 + 14) / 23.0));
  CHECK(ranking.values().size() == 8);
  CHECK(id_of([&] { ranking.add(Ids{1}, Ids{4}); }) == "data.labels");
  CHECK(id_of([&] { metrics::inverse_propensities(counts, 9, {.a = 1.5}); }) == "operator.value");
  CHECK(id_of([&] { metrics::inverse_propensities(counts, 9, {.b = -1}); }) == "operator.value");
  CHECK(metrics::inverse_propensities(counts, 9, {.a = 0, .b = 0}).front() >= 1);
}
