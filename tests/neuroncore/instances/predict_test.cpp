// A data-parallel step from one core's time: what travels while backward goes on costs nothing.

#include <soma/neuroncore/instances/predict.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <limits>
#include <vector>

using namespace soma::neuroncore;
using soma_test::contains;
using soma_test::message_of;

TEST_CASE("buckets travel one after another behind their last gradient", "[neuroncore]") {
  const Instance& large = instance_of("trn1.32xlarge");
  const auto reduce = [&](double bytes) {
    return collective_seconds(Collective::all_reduce, bytes, 32, large);
  };
  const std::vector<GradientReady> gradients{{30e6, 10e6}, {30e6, 20e6}, {10e6, 60e6}};
  const CoreStep step{.backward_ns = 60e6, .ns = 80e6, .gradients = gradients};
  const StepPrediction together = predict_step(step, 32, large, 50e6);
  CHECK(together.buckets == 2);
  // The first bucket is there long before backward ends; the second begins when it ends.
  CHECK(std::fabs(together.exposed_seconds - reduce(10e6)) < 1e-12);
  CHECK(std::fabs(together.reduce_seconds - reduce(60e6) - reduce(10e6)) < 1e-12);
  CHECK(std::fabs(together.seconds() - 0.080 - reduce(10e6)) < 1e-12);
  // Everything in one bucket waits for the last gradient.
  const StepPrediction late = predict_step(step, 32, large, 1e9);
  CHECK(late.buckets == 1);
  CHECK(std::fabs(late.exposed_seconds - reduce(70e6)) < 1e-12);
  // Buckets queue: three that are ready at once take three times one.
  const std::vector<GradientReady> at_once{{50e6, 60e6}, {50e6, 60e6}, {50e6, 60e6}};
  const StepPrediction queued =
      predict_step({.backward_ns = 60e6, .ns = 60e6, .gradients = at_once}, 32, large, 50e6);
  CHECK(std::fabs(queued.exposed_seconds - 3 * reduce(50e6)) < 1e-12);
  // One core reduces nothing.
  CHECK(predict_step(step, 1, large).exposed_seconds == 0);
  CHECK(predict_step(step, 1, large).steps_per_second() == 1 / 0.080);
  for (const double wrong : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    CHECK_THAT(message_of([&] { (void)predict_step(step, 32, large, wrong); }),
               contains("bucket_bytes") && contains("[neuroncore.instance]"));
}
