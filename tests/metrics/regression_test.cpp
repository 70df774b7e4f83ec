// These tests check metrics of regressions and of several labels a case, on cases counted by hand.

#include <soma/metrics/classification.hpp>
#include <soma/metrics/multi_label.hpp>
#include <soma/metrics/regression.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

using namespace soma;
using soma_test::id_of;

TEST_CASE("errors and R2 of a regression", "[unit][metrics]") {
  auto context = make_context();
  metrics::Regression metrics;
  // Targets 1, 2, 3, 6 with mean 3: squared distances 4 + 1 + 0 + 9. Errors 1, -1, 0, 2.
  const std::vector<float> first{2, 1}, second{3, 8};
  metrics.add(first, Tensor::from<float>(context, {1, 2}, {2}));
  metrics.add(second, Tensor::from<float>(context, {3, 6}, {2, 1}));
  CHECK(metrics.cases() == 4);
  CHECK(metrics.mse() == 6.0 / 4);
  CHECK(metrics.mae() == 1);
  CHECK(std::abs(metrics.r2() - (1 - 6.0 / 14)) < 1e-15);
  const metrics::Values values = metrics.values();
  REQUIRE(values.size() == 3);
  CHECK(metrics::find(values, "mse")->value == 1.5);
  CHECK_FALSE(metrics::find(values, "mae")->higher_is_better);
  CHECK(metrics::find(values, "r2")->higher_is_better);
  CHECK(metrics::find(values, "accuracy") == nullptr);
}

TEST_CASE("R2 of several outputs is their mean, and does not cancel", "[unit][metrics]") {
  auto context = make_context();
  metrics::Regression metrics(2);
  // Output 0 is met; output 1 is always its targets' mean.
  const std::vector<float> scores{5, 1, 6, 1};
  metrics.add(scores, Tensor::from<float>(context, {5, 0, 6, 2}, {2, 2}));
  CHECK(metrics.r2() == 0.5);
  // Targets far from zero: a difference of two sums of squares would be noise.
  metrics::Regression far;
  const std::vector<float> met{16777216.0f, 16777218.0f};
  far.add(met, Tensor::from<float>(context, {16777216.0f, 16777218.0f}, {2}));
  CHECK(far.r2() == 1);
  // Targets that do not vary: met, and missed.
  metrics::Regression same, missed;
  const std::vector<float> three{3}, four{4};
  same.add(three, Tensor::from<float>(context, {3}, {1}));
  CHECK(std::isnan(same.r2()));  // one case has none
  same.add(three, Tensor::from<float>(context, {3}, {1}));
  for (int i = 0; i < 2; ++i) missed.add(four, Tensor::from<float>(context, {3}, {1}));
  CHECK(same.r2() == 1);
  CHECK(missed.r2() == 0);
  CHECK(metrics::Regression().mse() == 0);
}

TEST_CASE("F1 of several labels", "[unit][metrics]") {
  auto context = make_context();
  for (const DType dtype : {DType::fp32, DType::uint8}) {
    metrics::MultiLabel metrics(3);
    // Label 0: hit, hit. Label 1: missed once, predicted wrongly once. Label 2: never.
    const std::vector<float> scores{1, -1, -1, 2, 3, -0.5f};
    const Tensor labels = dtype == DType::fp32
                              ? Tensor::from<float>(context, {1, 1, 0, 1, 0, 0}, {2, 3})
                              : Tensor::from<std::uint8_t>(context, {1, 1, 0, 1, 0, 0}, {2, 3});
    metrics.add(scores, labels);
    CHECK(metrics.cases() == 2);
    CHECK(metrics.f1(0) == 1);
    CHECK(metrics.f1(1) == 0);
    CHECK(std::isnan(metrics.f1(2)));
    CHECK(std::isnan(metrics::MultiLabel(3).micro_f1()));
    CHECK(std::isnan(metrics::MultiLabel(3).macro_f1()));
    CHECK(metrics.macro_f1() == 0.5);      // label 2 says nothing
    CHECK(metrics.micro_f1() == 4.0 / 6);  // 2 hits, 3 labels, 3 predictions
    CHECK(metrics::find(metrics.values(), "f1_1")->value == 0);
    CHECK(metrics.values().size() == 5);
  }
}

TEST_CASE("labels that are none are refused", "[unit][metrics]") {
  auto context = make_context();
  const std::vector<float> two{1, 2};
  const Tensor ints = Tensor::from<std::int64_t>(context, {1, 0}, {2});
  const Tensor three = Tensor::from<float>(context, {1, 0, 1}, {3});
  CHECK(id_of([&] { metrics::Regression().add(two, ints); }) == "train.label");
  CHECK(id_of([&] { metrics::Regression().add(two, three); }) == "train.label");
  CHECK(id_of([&] { metrics::MultiLabel(2).add(two, ints); }) == "train.label");
  CHECK(id_of([&] { metrics::MultiLabel(2).add(two, three); }) == "train.label");
  CHECK(id_of([&] { metrics::Classification(2).add(two, three); }) == "tensor.dtype");
}
