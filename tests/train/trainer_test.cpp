// The loop: it learns, its bits depend on nothing that they should not, and what is asked of it
// happens.

#include "train/small_run.hpp"

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace soma;
using namespace soma_test;
using train::TrainerBase;
using train::TrainerOptions;

namespace {

TrainerOptions options_of(Precision precision = {}) {
  return {.epochs = 3, .learning_rate = 2e-3, .warmup_steps = 3, .seed = 5, .precision = precision};
}

data::BatchOptions batching() { return {.batch_sequences = 16, .shuffle = true, .seed = 3}; }

struct Run {
  std::uint64_t bits = 0;
  train::Report report{};
};

Run run_whole(Context& context, const TrainerOptions& options) {
  SmallModel small(context);
  data::TokenSource source(context, token_lists(160), batching());
  data::TokenSource held_out(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
  TrainerBase trainer(context, small.task, options);
  Run run;
  run.report = trainer.fit(source, &held_out);
  run.bits = bits_of(context, small.task.parameters());
  return run;
}

// A source whose labels are made anew, of any type.
class Relabelled final : public data::BatchSource {
 public:
  using Labels = Tensor (*)(Context&, const Tensor&);
  Relabelled(Context& context, data::BatchSource& source, Labels labels)
      : context_(context), source_(source), labels_(labels) {}
  bool next(data::Batch& batch) override {
    if (!source_.next(batch)) return false;
    batch.labels = labels_(context_, batch.labels);
    return true;
  }
  data::Position position() const override { return source_.position(); }
  void seek(data::Position position) override { source_.seek(position); }
  std::uint64_t batches(std::uint64_t epoch) const override { return source_.batches(epoch); }
  std::uint64_t hash() const override { return source_.hash(); }
  std::size_t largest_rows() const override { return source_.largest_rows(); }
  std::size_t largest_sequences() const override { return source_.largest_sequences(); }

 private:
  Context& context_;
  data::BatchSource& source_;
  Labels labels_;
};

Tensor as_int32(Context& context, const Tensor& labels) {
  const Tensor narrow = Tensor::zeros(context, labels.shape(), DType::int32);
  const auto from = labels.span<std::int64_t>();
  std::copy(from.begin(), from.end(), narrow.mutable_span<std::int32_t>().begin());
  return narrow;
}
// Labels to be ignored, not as many in every batch.
Tensor some_ignored(Context& context, const Tensor& labels) {
  const Tensor some = clone(context, labels);
  const auto values = some.mutable_span<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i % 3 == 1 || (values[0] == 1 && i > 5)) values[i] = -100;
  return some;
}
Tensor ones_ignored(Context& context, const Tensor& labels) {
  const Tensor some = clone(context, labels);
  for (std::int64_t& label : some.mutable_span<std::int64_t>())
    if (label == 1) label = -100;
  return some;
}

// A task without classes, whose first evaluation is NaN.
class LateTask final : public nn::Task {
 public:
  explicit LateTask(nn::Task& task) : task_(task) {}
  const Parameters& parameters() const override { return task_.parameters(); }
  Forward forward(Tape& tape, const data::Batch& batch) override {
    Forward forward = task_.forward(tape, batch);
    forward.scores = Tensor();
    if (!tape.options().training && evaluations++ == 0)
      forward.loss = tape.constant(
          Tensor::full(tape.context(), Shape{}, std::numeric_limits<float>::quiet_NaN()));
    return forward;
  }
  int evaluations = 0;

 private:
  nn::Task& task_;
};

}  // namespace

TEST_CASE("a run learns, evaluates after each epoch and reports", "[unit]") {
  auto context = make_context();
  for (const Precision& precision : {Precision::fp32(), Precision::bf16(), Precision::bf16_sr()}) {
    INFO(precision.name);
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
    TrainerOptions options = options_of(precision);
    options.epochs = 8;
    TrainerBase trainer(context, small.task, options);
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
  for (const std::size_t accumulate : {1u, 3u, 4u, 5u, 20u}) {  // of ten batches
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(16), {.batch_sequences = 16});
    TrainerOptions options = options_of();
    options.epochs = 3;
    options.warmup_steps = 0;
    options.accumulate = accumulate;
    TrainerBase trainer(context, small.task, options);
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

TEST_CASE("interrupted after any step and resumed, the weights are the same", "[unit]") {
  auto context = make_context();
  for (const Precision& precision : {Precision::fp32(), Precision::bf16_sr()}) {
    TrainerOptions options = options_of(precision);
    const std::uint64_t whole = run_whole(context, options).bits;
    for (std::uint64_t step = 1; step < 30; ++step) {
      MemoryStore store(context);
      options.checkpoints = &store;
      {
        SmallModel small(context);
        data::TokenSource source(context, token_lists(160), batching());
        options.resume = false;
        TrainerBase trainer(context, small.task, options);
        Follower follower(step);
        trainer.add(follower);
        const train::Report report = trainer.fit(source, nullptr, &follower.stop);
        CHECK(report.interrupted);
        CHECK(report.steps == step);
      }
      SmallModel small(context, 99);  // other first weights: all comes from the checkpoint
      data::TokenSource source(context, token_lists(160), batching());
      options.resume = true;
      TrainerBase trainer(context, small.task, options);
      const train::Report report = trainer.fit(source);
      CHECK(report.first_step == step);
      CHECK(report.steps == 30);
      INFO(precision.name << " interrupted after step " << step);
      CHECK(bits_of(context, small.task.parameters()) == whole);
    }
  }
}

TEST_CASE("a checkpoint of another run is refused by name", "[unit]") {
  auto context = make_context();
  MemoryStore store(context);
  TrainerOptions options = options_of();
  options.checkpoints = &store;
  options.max_steps = 2;
  options.warmup_steps = 0;
  data::TokenSource source(context, token_lists(160), batching());
  {
    SmallModel small(context);
    TrainerBase(context, small.task, options).fit(source);
  }
  options.resume = true;
  const auto resumed = [&](const TrainerOptions& changed, data::TokenSource& data) {
    SmallModel small(context);
    TrainerBase trainer(context, small.task, changed);
    return id_of([&] { trainer.fit(data); });
  };
  TrainerOptions other = options;
  other.learning_rate = 1;
  CHECK(resumed(other, source) == "checkpoint.identity");
  other = options;
  other.seed = 6;
  CHECK(resumed(other, source) == "checkpoint.identity");
  data::TokenSource more(context, token_lists(161), batching());
  CHECK(resumed(options, more) == "checkpoint.identity");
  CHECK(resumed(options, source) == "no error");
}

TEST_CASE("a checkpoint of another model of the same shapes is refused by name", "[unit]") {
  auto context = make_context();
  data::TokenSource source(context, token_lists(32), batching());
  // The item that stands in the way of a run that goes on from one of another configuration.
  const auto refused = [&](const models::BertConfig& before, const models::BertConfig& after) {
    MemoryStore store(context);
    TrainerOptions options = options_of();
    options.checkpoints = &store;
    options.max_steps = 1;
    options.warmup_steps = 0;
    for (const models::BertConfig& config : {before, after}) {
      models::BertClassifier model(nn::Scope{context, 7}, config, 2);
      nn::ClassificationTask task(model, 2);
      TrainerBase trainer(context, task, options);
      const std::string message = message_of([&] { trainer.fit(source); });
      if (message.find("[checkpoint.identity]") != std::string::npos)
        return message.substr(message.find('"'), message.rfind('"') + 1 - message.find('"'));
      options.resume = true;
    }
    return std::string("nothing");
  };
  const models::BertConfig config = small_config();
  const auto changed = [&](const auto& change) {
    models::BertConfig other = config;
    change(other);
    return refused(config, other);
  };
  CHECK(refused(config, config) == "nothing");
  CHECK(changed([](auto& other) { other.heads *= 2; }) == "\"heads\"");
  CHECK(changed([](auto& other) { other.epsilon = 1e-5f; }) == "\"epsilon\"");
  CHECK(changed([](auto& other) { other.activation = Activation::relu; }) == "\"activation\"");
  CHECK(changed([](auto& other) { other.attention_dropout = 0.5f; }) == "\"attention_dropout\"");
  CHECK(changed([](auto& other) { other.classifier_dropout = 0.5f; }) == "\"classifier_dropout\"");
  // As without one: the other dropout.
  CHECK(changed([&](auto& other) { other.classifier_dropout = config.dropout; }) == "nothing");
  // What changes no bit.
  CHECK(changed([](auto& other) { other.recompute = true; }) == "nothing");
}

TEST_CASE("batches that are accumulated make the step of one large batch", "[unit]") {
  auto context = make_context();
  const auto first_step = [&](std::size_t batch, std::size_t accumulate) {
    data::TokenSource source(context, token_lists(48),
                             {.batch_sequences = batch, .shuffle = false});
    TrainerOptions options = options_of();
    options.accumulate = accumulate;
    options.max_steps = 1;
    options.warmup_steps = 0;
    models::BertConfig config = small_config();
    config.dropout = config.attention_dropout = 0;
    models::BertClassifier model(nn::Scope{context, 7}, config, 2);
    nn::ClassificationTask task(model, 2);
    TrainerBase trainer(context, task, options);
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

namespace {

// Ends by itself, within an epoch of ten steps.
TrainerOptions patient(bool keep_best) {
  TrainerOptions options = options_of();
  options.epochs = 40;
  options.evaluate_every = 7;
  options.patience = 2;
  options.keep_best = keep_best;
  return options;
}

}  // namespace

TEST_CASE("the best weights are kept, and a run that no longer gains ends", "[unit]") {
  auto context = make_context();
  for (const bool with_store : {false, true}) {
    MemoryStore store(context);
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
    TrainerOptions options = patient(true);
    if (with_store) options.checkpoints = &store;
    TrainerBase trainer(context, small.task, options);
    Follower follower;
    trainer.add(follower);
    const train::Report report = trainer.fit(source, &held_out);
    CHECK(report.stopped_early);
    CHECK(report.steps < 400);
    CHECK(train::evaluate(context, small.task, held_out).metrics.accuracy() ==
          report.metrics.accuracy());
  }
}

TEST_CASE("a run that has ended and is resumed ends the same, with the metrics of its weights",
          "[unit]") {
  auto context = make_context();
  for (const bool best : {false, true}) {
    INFO((best ? "the best" : "the last"));
    MemoryStore store(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
    TrainerOptions options = patient(best);
    options.checkpoints = &store;
    const auto run = [&] {
      SmallModel small(context);
      TrainerBase trainer(context, small.task, options);
      train::Report report = trainer.fit(source, &held_out);
      CHECK(report.stopped_early);
      CHECK(report.first_step == (options.resume ? report.steps : 0));  // none was left
      CHECK(report.evaluated);
      CHECK(report.evaluation_loss == train::evaluate(context, small.task, held_out).loss);
      return std::tuple(report.steps, bits_of(context, small.task.parameters()),
                        report.evaluation_loss, report.metrics.accuracy());
    };
    const auto whole = run();
    options.resume = true;
    CHECK(run() == whole);
  }
}

TEST_CASE("a second run without evaluations keeps what it learnt", "[unit]") {
  auto context = make_context();
  for (const bool with_store : {false, true}) {
    MemoryStore store(context);
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
    TrainerOptions options = options_of();
    options.keep_best = true;
    if (with_store) options.checkpoints = &store;
    TrainerBase trainer(context, small.task, options);
    trainer.fit(source, &held_out);
    const std::uint64_t first = bits_of(context, small.task.parameters());
    trainer.fit(source);
    CHECK(bits_of(context, small.task.parameters()) != first);
  }
}

TEST_CASE("an evaluation that is no number is never the best", "[unit]") {
  auto context = make_context();
  SmallModel small(context);
  LateTask late(small.task);
  data::TokenSource source(context, token_lists(160), batching());
  data::TokenSource held_out(context, token_lists(32), {.batch_sequences = 32, .shuffle = false});
  TrainerOptions options = options_of();
  options.keep_best = true;
  const train::Report report = TrainerBase(context, late, options).fit(source, &held_out);
  CHECK(late.evaluations == 3);
  CHECK(std::isfinite(report.evaluation_loss));
  CHECK(train::evaluate(context, small.task, held_out).loss == report.evaluation_loss);
}

TEST_CASE("class labels may be int32", "[unit]") {
  auto context = make_context();
  const auto run_of = [&](bool narrow) {
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    Relabelled relabelled(context, source, as_int32);
    data::BatchSource& batches = narrow ? static_cast<data::BatchSource&>(relabelled) : source;
    const train::Report report =
        TrainerBase(context, small.task, options_of()).fit(batches, &batches);
    return std::pair(bits_of(context, small.task.parameters()), report.metrics.accuracy());
  };
  CHECK(run_of(true) == run_of(false));
}

TEST_CASE("a task with other classes than its model has is refused", "[unit]") {
  auto context = make_context();
  SmallModel small(context);
  data::TokenSource source(context, token_lists(32), batching());
  for (const std::size_t classes : {std::size_t{1}, std::size_t{5}}) {
    nn::ClassificationTask task(small.model, classes);
    CHECK(id_of([&] { TrainerBase(context, task, options_of()).fit(source); }) == "train.label");
    CHECK(id_of([&] { train::evaluate(context, task, source); }) == "train.label");
  }
}

TEST_CASE("labels to be ignored count nowhere", "[unit]") {
  auto context = make_context();
  models::BertConfig config = small_config();
  config.dropout = config.attention_dropout = 0;
  models::BertClassifier model(nn::Scope{context, 7}, config, 2);
  nn::ClassificationTask task(model, 2);
  data::TokenSource source(context, token_lists(48), {.batch_sequences = 16, .shuffle = false});
  Relabelled relabelled(context, source, some_ignored);
  // Batches weigh as many as they count: their mean is that of all labels that count.
  double total = 0, counted = 0;
  std::uint64_t correct = 0;
  for (data::Batch batch; relabelled.next(batch);) {
    Tape tape(context, {.training = false});
    const nn::Task::Forward forward = task.forward(tape, batch);
    const std::span<const float> scores = forward.scores.span<float>();
    for (std::size_t i = 0; i < batch.labels.elements(); ++i) {
      const std::int64_t label = batch.labels.span<std::int64_t>()[i];
      if (label == -100) continue;
      const double difference = static_cast<double>(scores[2 * i + (label == 0 ? 1 : 0)]) -
                                static_cast<double>(scores[2 * i + (label == 0 ? 0 : 1)]);
      total += std::log1p(std::exp(difference));
      correct += difference < 0 ? 1 : 0;
      ++counted;
    }
  }
  const train::Evaluation evaluation = train::evaluate(context, task, relabelled);
  CHECK(evaluation.metrics.cases() == static_cast<std::uint64_t>(counted));
  CHECK(evaluation.metrics.correct() == correct);
  CHECK(std::abs(evaluation.loss - total / counted) < 1e-5);
  CHECK(std::abs(evaluation.metrics.loss() - evaluation.loss) < 1e-12);

  TrainerOptions options = options_of();
  options.epochs = 1;
  options.warmup_steps = 0;
  options.accumulate = 3;
  TrainerBase trainer(context, task, options);
  Follower follower;
  trainer.add(follower);
  trainer.fit(relabelled);
  REQUIRE(follower.steps.size() == 1);
  CHECK(follower.steps[0].sequences == 48);
  CHECK(follower.steps[0].classified == static_cast<std::uint64_t>(counted));
  CHECK(std::abs(follower.steps[0].loss - total / counted) < 1e-5);
}

TEST_CASE("a step in which no label counts has nothing to learn from", "[unit]") {
  auto context = make_context();
  for (const std::size_t accumulate : {1u, 2u}) {
    INFO(accumulate << " batches a step");
    SmallModel small(context);
    data::TokenSource source(context, token_lists(24), {.batch_sequences = 1, .shuffle = false});
    Relabelled relabelled(context, source, ones_ignored);
    TrainerOptions options = options_of();
    options.epochs = 1;
    options.accumulate = accumulate;
    TrainerBase trainer(context, small.task, options);
    Follower follower;
    trainer.add(follower);
    trainer.fit(relabelled);
    CHECK(follower.steps.size() == 24 / accumulate);
    std::size_t empty = 0;
    for (const train::StepInfo& step : follower.steps) {
      CHECK_FALSE(step.skipped);
      CHECK((step.loss == 0) == (step.classified == 0));
      CHECK((step.gradient_norm == 0) == (step.classified == 0));
      empty += step.classified == 0 ? 1 : 0;
    }
    CHECK(empty > 0);
    CHECK(empty < follower.steps.size());
  }
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
  CHECK(id_of([&] { TrainerBase(context, small.task, options).fit(source); }) ==
        "train.not_finite");
  CHECK(bits_of(context, small.task.parameters()) == before);
  options.non_finite = train::NonFinite::skip;
  options.max_steps = 5;
  const train::Report report = TrainerBase(context, small.task, options).fit(source);
  CHECK(report.skipped_steps == 5);
  CHECK(bits_of(context, small.task.parameters()) == before);
  options.max_steps = 30;
  TrainerBase trainer(context, small.task, options);
  Follower follower;
  trainer.add(follower);
  CHECK(id_of([&] { trainer.fit(source); }) == "train.not_finite");
  CHECK(follower.steps.size() == 24);  // the 25th in a row is an error
}

TEST_CASE("options that make no sense are refused", "[unit]") {
  auto context = make_context();
  SmallModel small(context);
  const auto refused = [&](const TrainerOptions& options) {
    return id_of([&] { TrainerBase(context, small.task, options); });
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
