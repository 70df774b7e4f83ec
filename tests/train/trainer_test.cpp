// These tests check the trainer's loop: it learns, threads do not change its bits, and it does what
// its options say.

#include <soma/data/token_source.hpp>
#include <soma/models/bert.hpp>
#include <soma/soma.hpp>
#include <soma/train/trainer.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/small_run.hpp"
#include "train/trainer_run.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

using namespace soma;
using namespace soma_test;
using train::Trainer;
using train::TrainerOptions;

TEST_CASE("a run learns, evaluates after each epoch and reports", "[unit]") {
  auto context = make_context();
  for (const Precision& precision : {Precision::fp32(), Precision::bf16(), Precision::bf16_sr()}) {
    INFO(precision.name);
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
    TrainerOptions options = options_of(precision);
    options.epochs = 8;
    Trainer trainer(context, small.task, options);
    Follower follower;
    trainer.add(follower);
    const train::Report report = trainer.fit(source, &held_out);
    CHECK(report.steps == 80);
    CHECK(report.epochs == 8);
    CHECK(follower.steps.size() == 80);
    CHECK(follower.evaluated_at == std::vector<std::uint64_t>{10, 20, 30, 40, 50, 60, 70, 80});
    CHECK(report.metrics.cases() == 64);
    CHECK(report.metrics.accuracy() == 1);  // one token decides
    CHECK(report.evaluation_loss < 0.2);
    CHECK(report.sequences == 8 * 160);
    CHECK(report.peak_resident_bytes > 0);
    // The rate: a rise of three steps, then a straight line that ends behind the last step.
    CHECK(follower.steps[0].learning_rate == 2e-3 * (1.0 / 3));
    CHECK(follower.steps[2].learning_rate == 2e-3);
    CHECK(std::abs(follower.steps[79].learning_rate - 2e-3 / 77) < 1e-15);
    for (const Parameter& parameter : small.task.parameters())
      CHECK(format_of(parameter.value().dtype()) ==
            (parameter.value().rank() >= 2 ? precision.weights.format : formats::fp32));
  }
}

TEST_CASE("an epoch that ends within a step is evaluated like any other", "[unit]") {
  auto context = make_context();
  for (const std::size_t accumulate : {1u, 3u, 4u, 5u, 20u}) {  // an epoch has ten batches
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(16), {.batch_sequences = 16});
    TrainerOptions options = options_of();
    options.epochs = 3;
    options.schedule.warmup = 0;
    options.accumulate = accumulate;
    Trainer trainer(context, small.task, options);
    Follower follower;
    trainer.add(follower);
    const std::uint64_t steps = trainer.fit(source, &held_out).steps / 3;
    INFO(accumulate << " batches a step");
    CHECK(steps == (10 + accumulate - 1) / accumulate);
    CHECK(follower.evaluated_at == std::vector<std::uint64_t>{steps, 2 * steps, 3 * steps});
  }
}

TEST_CASE("the same weights from any number of threads", "[unit]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16(), Precision::bf16_sr()}) {
    std::uint64_t first = 0;
    for (const int threads : {1, 2, 3, 7}) {
      auto context = make_context({.threads = threads});
      const std::uint64_t bits = run_whole(context, options_of(precision)).bits;
      if (first == 0) first = bits;
      INFO(precision.name << " with " << threads << " threads");
      CHECK(bits == first);
    }
  }
}

TEST_CASE("batches that are accumulated make the step of one large batch", "[unit]") {
  auto context = make_context();
  const auto first_step = [&](std::size_t batch, std::size_t accumulate) {
    data::TokenSource source(context, token_lists(48),
                             {.batch_sequences = batch, .shuffle = false});
    TrainerOptions options = options_of();
    options.accumulate = accumulate;
    options.max_steps = 1;
    options.schedule.warmup = 0;
    models::BertConfig config = small_config();
    config.dropout = config.attention_dropout = 0;
    models::BertClassifier model(nn::Scope{context, 7}, config, 2);
    nn::ClassificationTask task(model, 2);
    Trainer trainer(context, task, options);
    Follower follower;
    trainer.add(follower);
    trainer.fit(source);
    return follower.steps.front();
  };
  const train::StepInfo whole = first_step(48, 1), parts = first_step(20, 3);
  CHECK(parts.sequences == 48);  // 20, 20 and 8
  // The same mean of 48 losses in another order of adding: a few units of 2^-24 each.
  CHECK(std::abs(whole.loss - parts.loss) < 1e-6);
  CHECK(std::abs(whole.gradient_norm - parts.gradient_norm) < 1e-5 * whole.gradient_norm);
}

TEST_CASE("numbers that are not finite stop a run before a weight changes, or are skipped",
          "[unit]") {
  auto context = make_context();
  SmallModel small(context);
  data::TokenSource source(context, token_lists(160), batching());
  const Tensor weight = small.model.classifier.weight.value();
  weight.mutable_data<float>()[0] = std::numeric_limits<float>::infinity();
  TrainerOptions options = options_of();
  const std::uint64_t before = bits_of(context, small.task.parameters());
  CHECK(id_of([&] { Trainer(context, small.task, options).fit(source); }) == "train.not_finite");
  CHECK(bits_of(context, small.task.parameters()) == before);
  options.non_finite = train::NonFinite::skip;
  options.max_steps = 5;
  const train::Report report = Trainer(context, small.task, options).fit(source);
  CHECK(report.skipped_steps == 5);
  CHECK(bits_of(context, small.task.parameters()) == before);
  options.max_steps = 30;
  Trainer trainer(context, small.task, options);
  Follower follower;
  trainer.add(follower);
  CHECK(id_of([&] { trainer.fit(source); }) == "train.not_finite");
  CHECK(follower.steps.size() == 24);  // the 25th in a row is an error
}

TEST_CASE("options that make no sense are refused", "[unit]") {
  auto context = make_context();
  SmallModel small(context);
  const auto refused = [&](const TrainerOptions& options) {
    return id_of([&] { Trainer(context, small.task, options); });
  };
  CHECK(refused({.epochs = 0}) == "train.options");
  CHECK(refused({.epochs = std::uint64_t{1} << 40}) == "train.options");
  CHECK(refused({.accumulate = 0}) == "train.options");
  CHECK(refused({.learning_rate = -1}) == "train.options");
  CHECK(refused({.learning_rate = std::nan("")}) == "train.options");
  CHECK(refused({.clip = -1}) == "train.options");
  CHECK(refused({.checkpoint_every = 5}) == "train.options");
  CHECK(refused({.resume = true}) == "train.options");
  // And have written nothing.
  CHECK(refused({.accumulate = 0, .precision = Precision::bf16_sr()}) == "train.options");
  for (const Parameter& parameter : small.task.parameters())
    CHECK(parameter.value().dtype() == DType::fp32);
  CHECK(id_of([] { Precision::named("fp4"); }) == "train.precision");
  CHECK(Precision::named("bf16_sr").weights.format == formats::bf16);
}
