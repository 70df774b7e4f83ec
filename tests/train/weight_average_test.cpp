// The average of weights: against a plain loop over the weights of all steps; what is evaluated,
// kept, saved and resumed.

#include <soma/data/array_source.hpp>
#include <soma/nn.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/batch_norm/images.hpp"
#include "train/small_run.hpp"
#include "train/trainer_run.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;
using train::AverageOptions;
using train::Trainer;
using train::TrainerOptions;

namespace {

using Numbers = std::map<std::string, std::vector<float>>;

Numbers numbers_of(Context& context, const Parameters& parameters) {
  Numbers numbers;
  for (const Parameter& parameter : parameters) {
    const Tensor wide = run(context, *context.built_in().cast, CastSetting{.dtype = DType::fp32},
                            {contiguous(context, parameter.value())})[0];
    const std::span<const float> values = wide.span<float>();
    numbers[parameter.name].assign(values.begin(), values.end());
  }
  return numbers;
}

// The definition, with every operation rounded once: products of two floats are exact in doubles,
// and so are sums of two floats until they are rounded again.
struct PlainAverage {
  AverageOptions options{};
  Numbers average{};
  void step(std::uint64_t step, const Numbers& weights) {
    if (step < options.from) return;
    if (average.empty()) {
      average = weights;
      return;
    }
    if ((step - options.from) % options.every != 0) return;
    const double share = static_cast<double>(static_cast<float>(1 - options.decay));
    for (auto& [name, values] : average)
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto difference = static_cast<float>(static_cast<double>(weights.at(name)[i]) -
                                                   static_cast<double>(values[i]));
        const auto change = static_cast<float>(share * static_cast<double>(difference));
        values[i] =
            static_cast<float>(static_cast<double>(values[i]) + static_cast<double>(change));
      }
  }
};

struct Watch final : train::Callback {
  std::function<void(std::uint64_t)> after_step{}, after_evaluation{};
  void on_step(const train::StepInfo& info) override {
    if (after_step) after_step(info.step);
  }
  void on_evaluation(const train::EvaluationInfo& info) override {
    if (after_evaluation) after_evaluation(info.step);
  }
};

TrainerOptions averaging(const AverageOptions& average, const Precision& precision = {}) {
  TrainerOptions options = options_of(precision);
  options.average = average;
  return options;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the average is that of a plain loop over the weights of all steps", "[unit]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16_sr()})
    for (const AverageOptions& average :
         {AverageOptions{}, AverageOptions{.decay = 0.9}, AverageOptions{.decay = 0.75, .from = 4},
          AverageOptions{.decay = 0.5, .from = 3, .every = 5},
          AverageOptions{.decay = 0.8, .from = 100}}) {
      INFO(precision.name << ", decay " << average.decay << " from " << average.from << " every "
                          << average.every);
      for (const int threads : {1, 3}) {
        auto context = make_context({.threads = threads});
        SmallModel small(context);
        data::TokenSource source(context, token_lists(160), batching());
        data::TokenSource held_out(context, token_lists(64),
                                   {.batch_sequences = 32, .shuffle = false});
        MemoryStore store(context);
        TrainerOptions options = averaging(average, precision);
        options.checkpoints = &store;
        options.evaluate_every = 7;
        Trainer trainer(context, small.task, options);
        PlainAverage plain{average};
        Numbers last;
        std::size_t evaluations = 0;
        Watch watch;
        watch.after_step = [&](std::uint64_t step) {
          last = numbers_of(context, small.task.parameters());
          plain.step(step, last);
        };
        // Evaluations see the average, rounded to the type of the weights.
        const auto rounded = [&](const Numbers& values) {
          Numbers result = values;
          for (const Parameter& parameter : small.task.parameters())
            for (float& value : result[parameter.name]) {
              const FloatFormat& format = format_of(parameter.value().dtype());
              value = decode(format, encode(format, value));
            }
          return result;
        };
        watch.after_evaluation = [&](std::uint64_t) {
          ++evaluations;
          CHECK(numbers_of(context, small.task.parameters()) ==
                (plain.average.empty() ? last : rounded(plain.average)));
        };
        trainer.add(watch);
        const train::Report report = trainer.fit(source, &held_out);
        CHECK(report.steps == 30);
        CHECK(evaluations == 5);
        Checkpoint checkpoint;
        REQUIRE(store.load_latest(context, checkpoint));
        std::size_t found = 0;
        for (const auto& [name, values] : plain.average) {
          const Tensor* saved = checkpoint.optimizer.find(name + ".average");
          REQUIRE(saved != nullptr);
          const std::span<const float> own = saved->span<float>();
          CHECK(std::vector<float>(own.begin(), own.end()) == values);
          ++found;
        }
        std::size_t averages = 0;
        for (const auto& [name, tensor] : checkpoint.optimizer)
          averages += name.ends_with(".average");
        CHECK(averages == found);
        // The run ends with the average; its checkpoint has the weights.
        CHECK(numbers_of(context, small.task.parameters()) ==
              (plain.average.empty() ? last : rounded(plain.average)));
        Parameters saved = small.task.parameters();
        nn::load(saved, checkpoint.weights);
        CHECK(numbers_of(context, saved) == last);
      }
    }
}

TEST_CASE("a run without an average saves what it always has", "[unit]") {
  auto context = make_context();
  MemoryStore plain(context), averaged(context);
  TrainerOptions options = options_of();
  options.checkpoints = &plain;
  const std::uint64_t bits = run_whole(context, options).bits;
  options.average = AverageOptions{.decay = 0.9};
  options.checkpoints = &averaged;
  CHECK(run_whole(context, options).bits != bits);
  Checkpoint a, b;
  REQUIRE(plain.load_latest(context, a));
  REQUIRE(averaged.load_latest(context, b));
  for (const auto& [name, tensor] : a.optimizer) CHECK_FALSE(name.ends_with(".average"));
  CHECK(a.identity.find("average.decay") == nullptr);
  // Steps do not know of the average.
  for (const auto& [name, tensor] : a.weights)
    CHECK(std::memcmp(tensor.raw(), b.weights.at(name).raw(), tensor.bytes()) == 0);

  // Neither goes on from the other, nor with other numbers.
  const auto refusal = [&](MemoryStore& store, const std::optional<AverageOptions>& average) {
    TrainerOptions other = options_of();
    other.checkpoints = &store;
    other.resume = true;
    other.epochs = 4;
    other.average = average;
    return message_of([&] { run_whole(context, other); });
  };
  CHECK(has(refusal(plain, AverageOptions{}), "\"average.decay\""));
  CHECK(has(refusal(averaged, std::nullopt), "\"average.decay\""));
  CHECK(has(refusal(averaged, AverageOptions{.decay = 0.8}), "\"average.decay\""));
  CHECK(has(refusal(averaged, AverageOptions{.decay = 0.9, .every = 2}), "\"average.every\""));
  CHECK(has(refusal(averaged, AverageOptions{.decay = 0.9, .from = 2}), "\"average.from\""));

  Checkpoint broken = b;
  const std::string name = b.weights.begin()->first + ".average";
  broken.optimizer.set(name + "s", Tensor::zeros(context, Shape{1}));
  averaged.save(30, broken);
  CHECK(has(refusal(averaged, AverageOptions{.decay = 0.9}), "[state.extra_name]"));
  broken = b;
  broken.optimizer.erase(name);
  broken.optimizer.set(name, Tensor::zeros(context, Shape{1}));
  averaged.save(30, broken);
  CHECK(has(refusal(averaged, AverageOptions{.decay = 0.9}), "[state.shape]"));
}

TEST_CASE("an average goes on from a checkpoint of any step", "[unit]") {
  auto context = make_context();
  for (const Precision& precision : {Precision::fp32(), Precision::bf16_sr()})
    for (const AverageOptions& average :
         {AverageOptions{.decay = 0.9}, AverageOptions{.decay = 0.7, .from = 10, .every = 4}})
      for (const bool keep_best : {false, true}) {
        TrainerOptions options = averaging(average, precision);
        options.evaluate_every = 4;
        options.keep_best = keep_best;
        const std::uint64_t whole = run_whole(context, options).bits;
        for (const std::uint64_t step : {1u, 10u, 12u}) {
          INFO(precision.name << ", from " << average.from << ", best " << keep_best
                              << ", stopped after step " << step);
          MemoryStore store(context);
          options.checkpoints = &store;
          {
            SmallModel small(context);
            data::TokenSource source(context, token_lists(160), batching());
            data::TokenSource held_out(context, token_lists(64),
                                       {.batch_sequences = 32, .shuffle = false});
            options.resume = false;
            Trainer trainer(context, small.task, options);
            Follower follower(step);
            trainer.add(follower);
            CHECK(trainer.fit(source, &held_out, &follower.stop).interrupted);
            // An interrupted run ends with the weights, not with their average.
            Checkpoint checkpoint;
            REQUIRE(store.load_latest(context, checkpoint));
            for (const Parameter& parameter : small.task.parameters())
              CHECK(std::memcmp(parameter.value().raw(),
                                checkpoint.weights.at(parameter.name).raw(),
                                parameter.value().bytes()) == 0);
          }
          options.resume = true;
          CHECK(run_whole(context, options).bits == whole);
          options.checkpoints = nullptr;
          options.resume = false;
        }
      }
}

TEST_CASE("the best weights are averages", "[unit]") {
  auto context = make_context();
  SmallModel small(context);
  data::TokenSource source(context, token_lists(160), batching());
  data::TokenSource held_out(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
  for (const bool in_store : {false, true}) {
    TrainerOptions options = averaging({.decay = 0.9});
    options.evaluate_every = 3;
    options.keep_best = true;
    MemoryStore store(context);
    if (in_store) options.checkpoints = &store;
    Trainer trainer(context, small.task, options);
    std::map<std::uint64_t, Numbers> evaluated;
    struct Best final : train::Callback {
      void on_evaluation(const train::EvaluationInfo& info) override {
        if (info.best) step = info.step;
      }
      std::uint64_t step = 0;
    } best;
    Watch watch;
    watch.after_evaluation = [&](std::uint64_t step) {
      evaluated[step] = numbers_of(context, small.task.parameters());
    };
    trainer.add(watch);
    trainer.add(best);
    trainer.fit(source, &held_out);
    CHECK(numbers_of(context, small.task.parameters()) == evaluated.at(best.step));
  }
}

TEST_CASE("running statistics are averaged, too", "[unit]") {
  auto context = make_context();
  const nn::Sequential model = batch_norm_model(nn::Scope{context, 11});
  nn::ClassificationTask task(model, 3);
  const LabelledImages data(context);
  data::ArraySource source(context, data.images, data.classes, {.batch_sequences = 20, .seed = 3});
  Trainer trainer(context, task,
                  {.epochs = 2, .learning_rate = 1e-2, .average = AverageOptions{.decay = 0.5}});
  PlainAverage plain{*trainer.options().average};
  Watch watch;
  watch.after_step = [&](std::uint64_t step) {
    plain.step(step, numbers_of(context, task.parameters()));
  };
  trainer.add(watch);
  trainer.fit(source);
  CHECK(numbers_of(context, task.parameters()) == plain.average);
}

TEST_CASE("an average that cannot be is refused", "[unit]") {
  auto context = make_context();
  const auto refusal = [&](const AverageOptions& average) {
    return message_of([&] { run_whole(context, averaging(average)); });
  };
  CHECK(refusal({.decay = 1}) ==
        "Trainer: average.decay is 1, wanted above 0, below 1 [train.options]");
  for (const double decay : {0.0, -0.5, 1.5, std::nan(""), HUGE_VAL})
    CHECK(has(refusal({.decay = decay}), "Trainer: average.decay is "));
  CHECK(refusal({.every = 0}) == "Trainer: average.every is 0, wanted at least 1 [train.options]");
}
