// Metrics against their definitions, on cases counted by hand.

#include <soma/metrics/classification.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <array>
#include <cmath>
#include <utility>
#include <vector>

using namespace soma::metrics;
using soma_test::id_of;

TEST_CASE("accuracy, precision, recall and F1 of a small table", "[unit]") {
  Classification metrics(3);
  const auto add = [&](std::int64_t label, std::size_t taken_for) {
    std::array<float, 3> scores{-1, -1, -1};
    scores[taken_for] = 2;
    metrics.add(scores, label);
  };
  for (int i = 0; i < 5; ++i) add(0, 0);
  for (int i = 0; i < 2; ++i) add(0, 1);
  for (int i = 0; i < 3; ++i) add(1, 1);
  add(1, 2);
  add(2, 0);
  CHECK(metrics.cases() == 12);
  CHECK(metrics.correct() == 8);
  CHECK(metrics.accuracy() == 8.0 / 12);
  const std::vector<std::uint64_t> table{5, 2, 0, 0, 3, 1, 1, 0, 0};
  CHECK(std::vector<std::uint64_t>(metrics.confusion().begin(), metrics.confusion().end()) ==
        table);
  CHECK(metrics.precision(0) == 5.0 / 6);
  CHECK(metrics.recall(0) == 5.0 / 7);
  CHECK(metrics.f1(0) == 10.0 / 13);
  CHECK(metrics.precision(1) == 3.0 / 5);
  CHECK(metrics.f1(1) == 6.0 / 9);
  CHECK(metrics.f1(2) == 0);  // nothing of it was right
  CHECK(metrics.macro_f1() == (10.0 / 13 + 6.0 / 9) / 3);
}

TEST_CASE("many classes have no matrix, and the same figures", "[unit]") {
  // The same cases beside a matrix, and spread over classes whose matrix would take 80 GB.
  constexpr std::size_t few = 3, many = 100000, apart = 49999;
  Classification small(few), large(many);
  std::vector<float> scores(many);
  const std::vector<std::pair<std::size_t, std::size_t>> cases{{2, 2}, {0, 1}, {2, 0}, {0, 1},
                                                               {1, 1}, {2, 2}, {0, 0}};
  for (const auto& [label, prediction] : cases) {
    std::array<float, few> own{};
    own[prediction] = scores[prediction * apart] = 1;
    small.add(own, static_cast<std::int64_t>(label));
    large.add(scores, static_cast<std::int64_t>(label * apart));
    scores[prediction * apart] = 0;
  }
  CHECK(large.confusion().empty());
  std::vector<Confusion> cells = small.confusions();
  CHECK(cells == std::vector<Confusion>{{0, 0, 1}, {0, 1, 2}, {1, 1, 1}, {2, 0, 1}, {2, 2, 2}});
  for (Confusion& cell : cells) {
    cell.label *= apart;
    cell.prediction *= apart;
  }
  CHECK(large.confusions() == cells);
  CHECK(large.accuracy() == small.accuracy());
  CHECK(large.macro_f1() == small.macro_f1());
  CHECK(large.majority_share() == small.majority_share());
  for (std::size_t i = 0; i < few; ++i) {
    CHECK(large.f1(i * apart) == small.f1(i));
    CHECK(large.recall(i * apart) == small.recall(i));
    CHECK(large.precision(i * apart) == small.precision(i));
  }
  CHECK(Classification(Classification::most_matrix_classes).confusion().size() ==
        Classification::most_matrix_classes * Classification::most_matrix_classes);
}

TEST_CASE("macro F1 is over the classes that occur", "[unit]") {
  // Data that lack one of the model's classes, all of them recognised.
  Classification metrics(3);
  metrics.add(std::array<float, 3>{2, 1, 0}, 0);
  metrics.add(std::array<float, 3>{0, 1, 2}, 2);
  for (const double none : {metrics.f1(1), metrics.precision(1), metrics.recall(1)})
    CHECK(std::isnan(none));
  CHECK(metrics.macro_f1() == 1);
  // One that is predicted only is one that occurs.
  metrics.add(std::array<float, 3>{0, 2, 1}, 2);
  CHECK(metrics.macro_f1() == (1 + 0 + 2.0 / 3) / 3);
  CHECK(metrics.precision(1) == 0);
  CHECK(metrics.f1(1) == 0);
  CHECK(std::isnan(metrics.recall(1)));
  CHECK(std::isnan(Classification(3).macro_f1()));
  CHECK(Classification(3).accuracy() == 0);
}

TEST_CASE("one class only, and the share of the most frequent label", "[unit]") {
  Classification metrics(3);
  CHECK_FALSE(metrics.only_prediction());
  CHECK(metrics.majority_share() == 0);
  for (const std::int64_t label : {1, 1, 0, 1}) metrics.add(std::array<float, 3>{0, 1, 2}, label);
  CHECK(metrics.only_prediction() == 2u);
  CHECK(metrics.majority_share() == 3.0 / 4);
  metrics.add(std::array<float, 3>{0, 2, 1}, 2);
  CHECK_FALSE(metrics.only_prediction());
  CHECK(metrics.majority_share() == 3.0 / 5);
}

TEST_CASE("the area under the curve counts pairs, ties for half", "[unit]") {
  CHECK(area_under_curve({1, 2, 3}, {4, 5}) == 1);
  CHECK(area_under_curve({4, 5}, {1, 2, 3}) == 0);
  CHECK(area_under_curve({1, 2, 2, 3}, {2, 3}) == (1 + 2 * 0.5 + 3 + 0.5) / 8);
  // One class alone has no curve.
  CHECK(std::isnan(area_under_curve({}, {1})));
  CHECK(std::isnan(area_under_curve({1}, {})));
  Classification one(2);
  one.add(std::array<float, 2>{0, 1}, 1);
  CHECK(std::isnan(one.area_under_curve()));
  CHECK(std::isnan(soma::metrics::find(one.values(), "auc")->value));
  CHECK(soma::metrics::shown(one.area_under_curve()) == "-");
  CHECK(soma::metrics::shown(0.12345) == "0.1235");
  one.add(std::array<float, 2>{1, 0}, 0);
  CHECK(one.area_under_curve() == 1);
  // Scores without a place in the order, wherever they stand.
  const float nan = std::nanf("");
  CHECK(area_under_curve({1, nan, 2}, {3, nan}) == (2 + 4 * 0.5) / 6);
  CHECK(area_under_curve({nan, 2, 1}, {nan, 3}) == (2 + 4 * 0.5) / 6);
  CHECK(area_under_curve({nan, nan}, {1}) == 0.5);
  // Against the definition, on numbers that repeat.
  std::vector<float> negatives, positives;
  for (int i = 0; i < 40; ++i) {
    negatives.push_back(static_cast<float>(i * 7 % 13));
    positives.push_back(static_cast<float>(i * 5 % 17));
  }
  double pairs = 0;
  for (const float n : negatives)
    for (const float p : positives) pairs += p > n ? 1 : p == n ? 0.5 : 0;
  CHECK(area_under_curve(negatives, positives) == pairs / 1600);
}

TEST_CASE("Wilson's interval", "[unit]") {
  // 81 of 263: a worked example, 0.2553 to 0.3662 (Newcombe, Statistics in Medicine 17, 1998).
  const Interval interval = wilson_interval(81, 263);
  CHECK(std::abs(interval.low - 0.2553) < 5e-5);
  CHECK(std::abs(interval.high - 0.3662) < 5e-5);
  CHECK(wilson_interval(0, 20).low == 0);
  CHECK(wilson_interval(20, 20).high == 1);
  CHECK(wilson_interval(0, 0).high == 1);
  for (std::uint64_t cases = 1; cases <= 500; ++cases) {  // an end is reached in spite of rounding
    CHECK(wilson_interval(0, cases).low == 0);
    CHECK(wilson_interval(cases, cases).high == 1);
  }
}

TEST_CASE("what is no class is refused", "[unit]") {
  Classification metrics(2);
  const std::array<float, 2> two{0, 1};
  const std::array<float, 3> three{0, 1, 2};
  CHECK(id_of([&] { metrics.add(two, 2); }) == "train.label");
  CHECK(id_of([&] { metrics.add(two, -1); }) == "train.label");
  CHECK(id_of([&] { metrics.add(three, 1); }) == "train.label");
  CHECK(metrics.cases() == 0);
}
