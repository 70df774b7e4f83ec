// These tests check what a host gives to a run: callbacks that end it, gradients of its own, a net
// of its own with options nobody set, and options that are wrong.

#include <soma/soma.hpp>
#include <soma/train/trainer.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/number_runs.hpp"
#include "train/parallel_run.hpp"
#include "train/small_run.hpp"
#include "train/trainer_run.hpp"

#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

using namespace soma;
using namespace soma_test;
using train::Trainer;
using train::TrainerOptions;

namespace {

// Ends a run behind a step, or at an evaluation.
struct Enough final : train::Callback {
  Enough(std::uint64_t at_step, bool when_evaluated) : step(at_step), evaluated(when_evaluated) {}
  void on_step(const train::StepInfo& info) override {
    steps.push_back(info);
    if (info.step == step && !evaluated) stop_run();
  }
  void on_evaluation(const train::EvaluationInfo& info) override {
    if (info.step == step && evaluated) stop_run();
  }
  std::uint64_t step;
  bool evaluated;
  std::vector<train::StepInfo> steps;
};

// Least squares in closed form: gradients of a linear model without a tape.
class OwnGradients final : public train::StepGradients {
 public:
  OwnGradients(Context& context, const nn::Linear& layer)
      : context_(context), layer_(layer), parameters_(nn::parameters(*this)) {}
  void collect(nn::Collector& collector) const { collector.part("layer", layer_); }

  const Parameters& parameters() const override { return parameters_; }
  train::StepSums run(data::BatchSource& batches, const train::StepRequest& request) override {
    train::StepSums sums;
    clear_gradients(parameters_);
    const Tensor weight = parameters_[0].value(), bias = parameters_[1].value();
    Tensor dw = Tensor::zeros(context_, weight.shape()), db = Tensor::zeros(context_, bias.shape());
    for (data::Batch batch; sums.batches < request.batches && batches.next(batch); ++sums.batches) {
      const float* x = batch.inputs.rows.data<float>();
      const float* t = batch.labels.data<float>();
      const std::size_t rows = batch.labels.elements();
      const float factor =
          request.loss_scale * (request.batches == 1 ? 1 : static_cast<float>(rows));
      for (std::size_t i = 0; i < rows; ++i) {
        float y = *bias.data<float>();
        for (std::size_t j = 0; j < 4; ++j) y += x[4 * i + j] * weight.data<float>()[j];
        const float error = y - t[i], slope = 2 * error / static_cast<float>(rows) * factor;
        for (std::size_t j = 0; j < 4; ++j) dw.mutable_data<float>()[j] += slope * x[4 * i + j];
        *db.mutable_data<float>() += slope;
        sums.loss += static_cast<double>(error) * static_cast<double>(error);
      }
      sums.losses += static_cast<double>(rows);
      sums.sequences += rows;
    }
    if (sums.batches == 0) return sums;
    add(0, dw);
    add(1, db);
    return sums;
  }
  double norm() override { return optim::gradient_norm(context_, parameters_); }
  train::Evaluation evaluate(data::BatchSource&) override { return {.loss = 1}; }

 private:
  void add(std::size_t parameter, const Tensor& gradient) {
    Tape tape(context_);
    const Var& var = parameters_[parameter].var;
    tape.backward(sum(tape, mul(tape, var, tape.constant(gradient))));
  }
  Context& context_;
  const nn::Linear& layer_;
  Parameters parameters_;
};

}  // namespace

TEST_CASE("a callback ends a run, and what it saw says what a step did", "[unit]") {
  auto context = make_context();
  for (const bool evaluated : {false, true}) {
    SmallModel small(context);
    MemoryStore store(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
    TrainerOptions options = options_of();
    options.checkpoints = &store;
    options.evaluate_every = 7;
    Enough enough(7, evaluated);
    Trainer trainer(context, small.task, options);
    trainer.add(enough);
    const train::Report report = trainer.fit(source, &held_out);
    CHECK(report.steps == 7);
    CHECK(report.stopped_early);
    CHECK_FALSE(report.interrupted);
    CHECK(report.evaluated);
    REQUIRE(enough.steps.size() == 7);
    const train::StepInfo& step = enough.steps[3];
    CHECK(step.loss > 0);
    CHECK(step.gradient_norm > 0);
    CHECK(step.learning_rate == 2e-3 * (1 - 0.0 / 27) + 0);
    CHECK(step.seconds > 0);
    CHECK(step.sequences == 16);
    CHECK(step.longest >= 5);
    CHECK(step.longest <= 15);
    CHECK(step.tokens >= 16 * 5);
    // A second run begins anew; the checkpoint goes on.
    enough.step = 0;
    options.resume = true;
    SmallModel again(context, 99);
    Trainer longer(context, again.task, options);
    CHECK(longer.fit(source, &held_out).steps == 30);
    CHECK(bits_of(context, again.task.parameters()) == run_whole(context, options_of()).bits);
  }
}

TEST_CASE("a callback of any rank ends the run on all", "[unit]") {
  InProcessGroup group(2);
  std::vector<std::uint64_t> steps(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      auto context = make_context({.threads = 1});
      InProcessCommunicator communicator(group, rank);
      communicator.set_time_limit(60);
      SmallModel small(context);
      data::TokenSource source(context, token_lists(160), batching());
      TrainerOptions options = options_of();
      options.communicator = &communicator;
      Enough enough(rank == 1 ? 4 : 0, false);
      Trainer trainer(context, small.task, options);
      trainer.add(enough);
      steps[static_cast<std::size_t>(rank)] = trainer.fit(source).steps;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(steps == std::vector<std::uint64_t>{4, 4});
}

TEST_CASE("gradients of one's own go through optimizer, clipping and checkpoints", "[unit]") {
  auto context = make_context();
  const NumberRows rows = number_rows(96);
  const auto train_with = [&](bool own, std::size_t accumulate, CheckpointStore* store, bool resume,
                              std::uint64_t stop_after) {
    const nn::Linear layer(nn::Scope{context, 4} / "layer", 4, 1);
    struct Model {
      Var operator()(Tape& tape, const Var& x) const { return layer(tape, x); }
      void collect(nn::Collector& collector) const { collector.part("layer", layer); }
      const nn::Linear& layer;
    } const model{layer};
    nn::RegressionTask task(model);
    OwnGradients gradients(context, layer);
    data::ArraySource source = number_source(context, rows);
    TrainerOptions options{.epochs = 4,
                           .accumulate = accumulate,
                           .learning_rate = 0.05,
                           .clip = 0.5,
                           .checkpoints = store,
                           .resume = resume};
    if (own) options.gradients = &gradients;
    Trainer trainer(context, task, options);
    Follower follower(stop_after);
    trainer.add(follower);
    const train::Report report = trainer.fit(source, nullptr, &follower.stop);
    std::vector<float> weights;
    for (const Parameter& parameter : task.parameters())
      for (const float value : parameter.value().span<float>()) weights.push_back(value);
    weights.push_back(static_cast<float>(report.loss));
    return weights;
  };
  for (const std::size_t accumulate : {1u, 2u}) {
    const std::vector<float> wanted = train_with(false, accumulate, nullptr, false, 0);
    const std::vector<float> found = train_with(true, accumulate, nullptr, false, 0);
    // Sums of 32 products in another order: 32 roundings of 2^-24 a step, through twelve steps.
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(std::fabs(wanted[i] - found[i]) < 2e-5f);
    MemoryStore store(context);
    train_with(true, accumulate, &store, false, 3);
    CHECK(train_with(true, accumulate, &store, true, 0) == found);
  }
}

TEST_CASE("a net of one's own learns with default options", "[unit]") {
  auto context = make_context();
  const SmallNet net(nn::Scope{context, 5}, 2);
  nn::ClassificationTask task(net, 2);
  const NumberRows rows = number_rows(2000);
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < 2000; ++i)
    labels.push_back(rows.features[4 * i] + rows.features[4 * i + 1] > 0 ? 1 : 0);
  data::ArraySource source(
      context, Tensor::from(context, std::span<const float>(rows.features), Shape{2000, 4}),
      Tensor::from(context, std::span<const std::int64_t>(labels), Shape{2000}), {.seed = 2});
  Trainer trainer(context, task, {.epochs = 10});
  CHECK(trainer.schedule().rate == 1e-3);
  CHECK(trainer.fit(source, &source).metric("accuracy") > 0.95);
}

TEST_CASE("a learning rate is said once", "[unit]") {
  auto context = make_context();
  SmallModel small(context);
  const auto rate_of = [&](const TrainerOptions& options) {
    return Trainer(context, small.task, options).schedule().rate;
  };
  CHECK(rate_of({.learning_rate = 0.25}) == 0.25);
  CHECK(rate_of({.schedule = {.rate = 0.5}}) == 0.5);
  CHECK(id_of([&] { rate_of({.learning_rate = 0.25, .schedule = {.rate = 0.25}}); }) ==
        "train.options");
}

TEST_CASE("a wrong label is named by its place in the data", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::size_t sizes[] = {2, 4, 3};
  const models::Mlp model({context}, sizes);
  nn::ClassificationTask task(model, 3);
  std::vector<std::int64_t> labels(64, 1);
  labels[37] = 3;
  data::ArraySource source(context, Tensor::full(context, {64, 2}, 0.5f),
                           Tensor::from(context, labels, {64}), {.batch_sequences = 8});
  std::string message;
  try {
    train::Trainer(context, task, {}).fit(source);
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message ==
        "ClassificationTask: label of sequence 37 of the data is 3, wanted 0 to 2 [train.label]");
}

TEST_CASE("options say numbers of things as whole numbers", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::size_t sizes[] = {2, 4, 3};
  const models::Mlp model({context}, sizes);
  nn::ClassificationTask task(model, 3);
  try {
    train::Trainer(context, task, {.epochs = 0});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.argument() == "epochs");
    CHECK(error.given() == "0");
  }
}
