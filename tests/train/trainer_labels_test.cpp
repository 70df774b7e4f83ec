// These tests check which labels a run takes, and that labels to be ignored count nowhere.

#include <soma/data/token_source.hpp>
#include <soma/models/bert.hpp>
#include <soma/soma.hpp>
#include <soma/train/trainer.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/small_run.hpp"
#include "train/trainer_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

using namespace soma;
using namespace soma_test;
using train::Trainer;
using train::TrainerOptions;

namespace {

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

}  // namespace

TEST_CASE("class labels may be int32", "[unit]") {
  auto context = make_context();
  const auto run_of = [&](bool narrow) {
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    Relabelled relabelled(context, source, as_int32);
    data::BatchSource& batches = narrow ? static_cast<data::BatchSource&>(relabelled) : source;
    const train::Report report = Trainer(context, small.task, options_of()).fit(batches, &batches);
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
    CHECK(id_of([&] { Trainer(context, task, options_of()).fit(source); }) == "train.label");
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

  TrainerOptions options = options_of();
  options.epochs = 1;
  options.schedule.warmup = 0;
  options.accumulate = 3;
  Trainer trainer(context, task, options);
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
    Trainer trainer(context, small.task, options);
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
