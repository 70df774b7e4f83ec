// A whole training run on the NeuronCore model beside the same run on the host.

#include "train/small_run.hpp"

#include "catch.hpp"
#include "support/on_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr std::uint64_t steps = 30;

struct Run {
  std::vector<double> losses;
  std::uint64_t bits = 0;
};

Run train_small(Context& context, const Precision& precision) {
  class Losses final : public train::Callback {
   public:
    explicit Losses(std::vector<double>& losses) : losses_(losses) {}
    void on_step(const train::StepInfo& info) override { losses_.push_back(info.loss); }

   private:
    std::vector<double>& losses_;
  };
  Run run;
  SmallModel small(context);
  data::TokenSource source(context, token_lists(160),
                           {.batch_sequences = 8, .shuffle = true, .seed = 3});
  train::Trainer trainer(context, small.task,
                         {.epochs = 2,
                          .max_steps = steps,
                          .learning_rate = 2e-3,
                          .schedule = {.decay = optim::Decay::linear, .warmup = 3},
                          .seed = 5,
                          .precision = precision});
  Losses losses(run.losses);
  trainer.add(losses);
  trainer.fit(source);
  run.bits = bits_of(context, small.task.parameters());
  return run;
}

Run on_device(const Precision& precision, int threads, const neuroncore::CoreOptions& options) {
  auto context = make_context({.threads = threads});
  const OnDevice on(context, options);
  return train_small(context, precision);
}

double largest_difference(const Run& a, const Run& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    largest = (std::max)(largest, std::fabs(a.losses[i] - b.losses[i]));
  return largest;
}

}  // namespace

TEST_CASE("a small BERT trains on the device as on the host", "[unit][bert]") {
  auto context = make_context({.threads = 1});
  // In fp32 host and device differ in the order of sums alone: 2^-24 a step and a layer, and AdamW
  // turns a relative error of a gradient into one of the step, which the rate (2e-3) makes small.
  const Run host = train_small(context, Precision::fp32());
  REQUIRE(host.losses.size() == steps);
  CHECK(host.losses.back() < host.losses.front());  // dropout is on; it learns all the same
  const Run device = on_device(Precision::fp32(), 1, strict);
  REQUIRE(device.losses.size() == steps);
  CHECK(largest_difference(host, device) < 1e-5);

  neuroncore::CoreOptions wide = strict;
  wide.everything_fp32 = true;
  CHECK(largest_difference(host, on_device(Precision::fp32(), 1, wide)) < 1e-5);
}

TEST_CASE("narrow formats on the device follow the host", "[unit][bert]") {
  auto context = make_context({.threads = 1});
  for (const Precision& precision : {Precision::bf16(), Precision::bf16_sr()}) {
    INFO(precision.name);
    const Run host = train_small(context, precision);
    const Run device = on_device(precision, 1, strict);
    REQUIRE(device.losses.size() == steps);
    // Where host and device round an activation differently, it is by a unit of bf16; a loss is a
    // mean of eight, and moves by less than such a unit.
    CHECK(largest_difference(host, device) < 0x1p-8);
    CHECK(device.losses.back() < device.losses.front());
  }
}

TEST_CASE("threads and late transfers change no bit of a run on the device", "[unit][invariance]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16_sr()}) {
    INFO(precision.name);
    const Run one = on_device(precision, 1, strict);
    for (const int threads : {2, 7}) {
      INFO(threads);
      CHECK(on_device(precision, threads, strict).bits == one.bits);
    }
    CHECK(on_device(precision, 1, stressed(11)).bits == one.bits);
  }
}
