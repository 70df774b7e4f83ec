// These tests check what tells a better evaluation: the chosen metric, ties, best weights, patience
// and a schedule that goes by evaluations; and tasks whose labels are numbers.

#include <soma/soma.hpp>
#include <soma/train/report.hpp>
#include <soma/train/trainer.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/number_runs.hpp"
#include "train/parallel_run.hpp"
#include "train/small_run.hpp"
#include "train/trainer_run.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using namespace soma_test;
using train::Trainer;
using train::TrainerOptions;

namespace {

// A metric whose values, evaluation after evaluation, a test writes down.
class Scripted final : public metrics::Metrics {
 public:
  Scripted(const std::vector<double>& script, std::size_t& next) : script_(script), next_(next) {}
  std::size_t outputs() const override { return 2; }
  void add(std::span<const float>, const Tensor&) override { used_ = true; }
  std::uint64_t cases() const override { return 1; }
  metrics::Values values() const override {
    return {{"scripted", "scripted", used_ ? script_.at(next_++) : 0}};
  }

 private:
  const std::vector<double>& script_;
  std::size_t& next_;
  bool used_ = false;
};

class ScriptedTask final : public nn::Task {
 public:
  ScriptedTask(nn::Task& task, std::vector<double> script)
      : task_(task), script_(std::move(script)) {}
  const Parameters& parameters() const override { return task_.parameters(); }
  Forward forward(Tape& tape, const data::Batch& batch) override {
    return task_.forward(tape, batch);
  }
  Owned<metrics::Metrics> metrics() const override {
    return Owned<metrics::Metrics>::make<Scripted>(script_, next_);
  }

 private:
  nn::Task& task_;
  std::vector<double> script_;
  mutable std::size_t next_ = 0;
};

struct Outcome {
  std::vector<std::uint64_t> evaluated_at{};
  std::vector<bool> best{};
  std::vector<double> rates{};
  train::Report report{};
};

// Evaluates after every second step.
Outcome run_scripted(const std::vector<double>& script, TrainerOptions options) {
  struct Notes final : train::Callback {
    explicit Notes(Outcome& to) : outcome(to) {}
    void on_step(const train::StepInfo& step) override {
      outcome.rates.push_back(step.learning_rate);
    }
    void on_evaluation(const train::EvaluationInfo& info) override {
      outcome.evaluated_at.push_back(info.step);
      outcome.best.push_back(info.best);
    }
    Outcome& outcome;
  };
  auto context = make_context();
  SmallModel small(context);
  ScriptedTask task(small.task, script);
  data::TokenSource source(context, token_lists(160), batching());
  data::TokenSource held_out(context, token_lists(16), {.batch_sequences = 16, .shuffle = false});
  options.max_steps = 2 * script.size();
  options.epochs = 0;
  options.evaluate_every = 2;
  options.best_metric = "scripted";
  Outcome outcome;
  Notes notes(outcome);
  Trainer trainer(context, task, options);
  trainer.add(notes);
  outcome.report = trainer.fit(source, &held_out);
  return outcome;
}

}  // namespace

TEST_CASE("an evaluation that equals the best is no worsening", "[unit]") {
  const TrainerOptions options{.learning_rate = 1e-3, .patience = 2};
  // Worse, equal, worse: the second worse one ends the run.
  const Outcome outcome = run_scripted({1, 0.5, 1, 0.5, 7, 7}, options);
  CHECK(outcome.evaluated_at == std::vector<std::uint64_t>{2, 4, 6, 8});
  CHECK(outcome.best == std::vector<bool>{true, false, false, false});
  CHECK(outcome.report.stopped_early);
  CHECK(run_scripted({1, 1, 1, 1, 1, 1}, options).evaluated_at.size() == 6);
  // A threshold of the schedule is none of this patience.
  TrainerOptions plateau = options;
  plateau.schedule = {.decay = optim::Decay::plateau, .threshold = 0.5};
  CHECK(run_scripted({1, 1.1, 1, 1.2, 1, 1.3}, plateau).evaluated_at.size() == 6);
  CHECK(run_scripted({1, 0.5, 2, 1.5, 1.25, 7}, options).evaluated_at.size() == 5);
}

TEST_CASE("a plateau schedule reduces the rate by the chosen metric", "[unit]") {
  const auto rates = [](const std::vector<double>& script, double threshold) {
    return run_scripted(script, {.learning_rate = 0.5,
                                 .schedule = {.decay = optim::Decay::plateau,
                                              .factor = 0.5,
                                              .threshold = threshold}})
        .rates;
  };
  using Rates = std::vector<double>;
  const Rates third{0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25};
  CHECK(rates({1, 0.5, 0.5, 2, 1}, 1e-4) == third);
  // A metric that stays where it is, and one that rises by less than the threshold.
  const Rates flat{0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125};
  CHECK(rates({1, 1, 1, 1, 1, 1}, 1e-4) == flat);
  CHECK(rates({1, 1.001, 1.002, 1.003, 1.004, 1.005}, 0.01) == flat);
  CHECK(rates({1, 1.001, 1.002, 1.003, 1.004, 1.005}, 0) == Rates(12, 0.5));
  auto context = make_context();
  SmallModel small(context);
  data::TokenSource source(context, token_lists(32), batching());
  Trainer blind(context, small.task, {.schedule = {.decay = optim::Decay::plateau}});
  CHECK(id_of([&] { blind.fit(source); }) == "train.options");
}

TEST_CASE("best weights are those of the chosen metric", "[unit]") {
  auto context = make_context();
  // Losses of the evaluations, and those that were best.
  struct Notes final : train::Callback {
    void on_evaluation(const train::EvaluationInfo& info) override {
      loss.push_back(info.loss);
      accuracy.push_back(metrics::find(*info.values, "accuracy")->value);
    }
    std::vector<double> loss, accuracy;
  };
  for (const std::string metric : {"loss", "accuracy", "macro_f1", "auc"}) {
    INFO(metric);
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
    TrainerOptions options = options_of();
    options.evaluate_every = 3;
    options.epochs = 4;
    options.keep_best = true;
    options.best_metric = metric;
    Notes notes;
    Trainer trainer(context, small.task, options);
    trainer.add(notes);
    const train::Report report = trainer.fit(source, &held_out);
    if (metric == "loss")
      CHECK(report.evaluation_loss == *std::min_element(notes.loss.begin(), notes.loss.end()));
    if (metric == "accuracy")
      CHECK(report.metric("accuracy") ==
            *std::max_element(notes.accuracy.begin(), notes.accuracy.end()));
    CHECK(report.best_metric == metric);
    CHECK(train::evaluate(context, small.task, held_out).loss == report.evaluation_loss);
  }
  SmallModel small(context);
  CHECK(message_of([&] { Trainer(context, small.task, {.best_metric = "acuracy"}); }) ==
        "Trainer: best_metric is \"acuracy\", wanted one of loss, accuracy, macro_f1, auc "
        "[train.options]");
}

TEST_CASE("a regression learns, and its report has its validation loss", "[unit]") {
  auto context = make_context();
  const SmallNet net(nn::Scope{context, 3});
  nn::RegressionTask task(net);
  data::ArraySource source = number_source(context, number_rows(512));
  data::ArraySource held_out = number_source(context, number_rows(128, 8), false);
  Trainer trainer(context, task,
                  {.epochs = 40, .learning_rate = 1e-2, .best_metric = "r2", .keep_best = true});
  const train::Report report = trainer.fit(source, &held_out);
  CHECK(report.metric("r2") > 0.9);
  CHECK(std::abs(report.metric("mse") - report.evaluation_loss) < 1e-6);
  CHECK(report.metrics.cases() == 0);
  const std::string text = to_string(report);
  CHECK(text.find("  validation loss   0.0") == 0);
  CHECK(text.find("\n  R2 ") != std::string::npos);
  CHECK(text.find("accuracy") == std::string::npos);
  CHECK(id_of([&] { report.metric("accuracy"); }) == "train.options");
}

TEST_CASE("a regression has the same bits on ranks", "[unit]") {
  const auto run_rank = [](Communicator* communicator) {
    auto context = make_context({.threads = 1});
    const SmallNet net(nn::Scope{context, 3});
    nn::RegressionTask task(net);
    data::ArraySource source = number_source(context, number_rows(90));
    data::ArraySource held_out = number_source(context, number_rows(70, 8), false);
    Trainer trainer(context, task, {.epochs = 2, .communicator = communicator});
    const train::Report report = trainer.fit(source, &held_out);
    return std::pair(bits_of(context, task.parameters()), report.metric("r2"));
  };
  const auto alone = run_rank(nullptr);
  for (const int ranks : {2, 8}) {
    InProcessGroup group(ranks);
    std::vector<std::pair<std::uint64_t, double>> results(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        InProcessCommunicator communicator(group, rank);
        results[static_cast<std::size_t>(rank)] = run_rank(&communicator);
      });
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : results) CHECK(result == alone);
  }
}

TEST_CASE("a task of several labels learns", "[unit]") {
  auto context = make_context();
  const SmallNet net(nn::Scope{context, 3}, 2);
  nn::MultiLabelTask task(net, 2);
  const NumberRows rows = number_rows(512);
  std::vector<float> labels;
  for (std::size_t i = 0; i < rows.targets.size(); ++i) {
    labels.push_back(rows.features[4 * i] > 0 ? 1.0f : 0.0f);
    labels.push_back(rows.features[4 * i + 1] > 0.5f ? 1.0f : 0.0f);
  }
  data::ArraySource source(
      context, Tensor::from(context, std::span<const float>(rows.features), Shape{512, 4}),
      Tensor::from(context, std::span<const float>(labels), Shape{512, 2}), {.seed = 2});
  Trainer trainer(context, task, {.epochs = 40, .learning_rate = 1e-2});
  const train::Report report = trainer.fit(source, &source);
  CHECK(report.metric("micro_f1") > 0.95);
  CHECK(report.metric("macro_f1") > 0.95);
}

TEST_CASE("labels of another shape are refused by a task of numbers", "[unit]") {
  auto context = make_context();
  const SmallNet net(nn::Scope{context, 3}, 2);
  nn::RegressionTask task(net, 2);
  data::ArraySource source = number_source(context, number_rows(40));
  CHECK(message_of([&] { Trainer(context, task, {}).fit(source); }) ==
        "RegressionTask: labels is [32] fp32, wanted [32, 2] [train.label]");
}
