// Parameters that step while backward goes on: the same bits, and no gradient that waits.

#include <soma/soma.hpp>

#include <soma/decoders.hpp>
#include <soma/nn.hpp>
#include <soma/optim/adafactor.hpp>
#include <soma/pipeline.hpp>
#include <soma/train/early_steps.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace soma;
using models::LanguageModel;

struct EarlyRun {
  std::string folder = std::string(SOMA_TEST_DECODERS) + "/texts_gpt2";
  Precision precision = Precision::fp32();
  bool recompute = false, adafactor = false, average = false;
  std::optional<nn::LoraOptions> lora{};
};

struct EarlyResult {
  std::vector<std::vector<std::byte>> weights{};
  std::vector<std::uint64_t> numbers{};  // losses and norms
};

struct EarlyHook final : train::Callback {
  explicit EarlyHook(EarlyResult& to) : result(to) {}
  void on_step(const train::StepInfo& step) override {
    result.numbers.push_back(std::bit_cast<std::uint64_t>(step.loss));
    result.numbers.push_back(std::bit_cast<std::uint64_t>(step.gradient_norm));
  }
  EarlyResult& result;
};

const std::vector<std::string> early_texts = {
    "the train is late again",       "A café at nine!", "we wait",
    "the people of platform 3 wait", "Yours",           "on Monday and on Tuesday"};

EarlyResult run_early(const EarlyRun& run, bool early) {
  auto context = make_context({.threads = 2});
  LanguageModel model = LanguageModel::from_pretrained(
      context, run.folder,
      {.length = 9, .seed = 4, .dropout = 0.1f, .recompute = run.recompute, .lora = run.lora});
  train::TrainerOptions options{
      .epochs = 3, .learning_rate = 1e-2, .clip = 0, .seed = 5, .precision = run.precision};
  options.step_early = early;
  if (run.average) options.average = train::AverageOptions{.decay = 0.9};
  std::optional<optim::Adafactor> other;
  if (run.adafactor) options.optimizer = &other.emplace(context, model.parameters());
  train::Trainer trainer(context, model, options);
  EarlyResult result;
  EarlyHook hook(result);
  trainer.add(hook);
  const auto source = model.batches(early_texts, {.batch_sequences = 3, .seed = 5});
  trainer.fit(*source);
  for (const Parameter& parameter : model.parameters())
    result.weights.push_back(soma_test::bits(context, parameter.value()));
  return result;
}

}  // namespace

TEST_CASE("parameters that step early have the same bits, norms and losses", "[unit][models]") {
  const std::string llama = std::string(SOMA_TEST_DECODERS) + "/texts_llama";
  std::vector<EarlyRun> runs;
  for (const Precision& precision : {Precision::fp32(), Precision::bf16_sr()})
    for (const bool recompute : {false, true}) {
      runs.push_back({.precision = precision, .recompute = recompute});
      runs.push_back({.folder = llama, .precision = precision, .recompute = recompute});
    }
  runs.push_back({.adafactor = true});
  runs.push_back({.average = true});
  runs.push_back({.recompute = true, .lora = nn::LoraOptions{.rank = 2, .dropout = 0.1f}});
  runs.push_back({.precision = Precision::fp8_delayed()});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    INFO("run " << i);
    const EarlyResult late = run_early(runs[i], false), early = run_early(runs[i], true);
    CHECK(late.numbers == early.numbers);
    CHECK(late.weights == early.weights);
  }
}

TEST_CASE("early steps are refused where a step needs all gradients", "[unit][models]") {
  auto context = make_context({.threads = 1});
  LanguageModel model = LanguageModel::from_pretrained(
      context, std::string(SOMA_TEST_DECODERS) + "/texts_gpt2", {.length = 9});
  const auto id_with = [&](const auto& change, bool pipeline = false) {
    train::TrainerOptions options{.learning_rate = 1e-2, .clip = 0};
    options.step_early = true;
    change(options);
    return soma_test::id_of([&] {
      if (pipeline)
        train::PipelineTrainer(context, model, options);
      else
        train::Trainer(context, model, options);
    });
  };
  const auto unchanged = [](train::TrainerOptions&) {};
  CHECK(id_with(unchanged) == "no error");
  CHECK(id_with(unchanged, true) == "train.options");
  CHECK(id_with([](auto& options) { options.clip = 1; }) == "train.options");
  CHECK(id_with([](auto& options) { options.accumulate = 2; }) == "train.options");
  CHECK(id_with([](auto& options) { options.non_finite = train::NonFinite::skip; }) ==
        "train.options");
  CHECK(id_with([](auto& options) { options.loss_scaling = optim::LossScalerOptions{}; }) ==
        "train.options");
}

TEST_CASE("early steps stop at a loss or a gradient that is not finite", "[unit][models]") {
  auto context = make_context({.threads = 1});
  {
    LanguageModel model = LanguageModel::from_pretrained(
        context, std::string(SOMA_TEST_DECODERS) + "/texts_llama", {.length = 9});
    train::TrainerOptions options{.learning_rate = 1e-2, .clip = 0};
    options.step_early = true;
    train::Trainer trainer(context, model, options);
    const Tensor spoilt = model.parameters()[0].value();
    spoilt.mutable_data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    for (float& value : spoilt.mutable_span<float>()) value = spoilt.data<float>()[0];
    const auto before = soma_test::bits(context, model.parameters().back().value());
    const auto source = model.batches(early_texts, {.batch_sequences = 3, .seed = 5});
    CHECK(soma_test::id_of([&] { trainer.fit(*source); }) == "train.not_finite");
    CHECK(soma_test::bits(context, model.parameters().back().value()) == before);
  }
  Parameters parameters;
  for (const char* name : {"a", "b", "c"})
    parameters.push_back(
        {.name = name, .var = Var::parameter(context, Tensor::full(context, {3}, 1.0f))});
  optim::AdamW optimizer(context, parameters);
  train::EarlySteps steps(context, parameters);
  steps.begin(optimizer, 0.5);
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < 3; ++i) {
    const Var& var = parameters[i].var;
    steps.receive(var, {Tensor::full(context, {3}, 2.0f), {}});
    steps.receive(var, {Tensor::full(context, {3}, i == 1 ? infinity : 1.0f), {}});
    steps.complete(var, DType::fp32);
    steps.complete(var, DType::fp32);
    CHECK_FALSE(var.gradient().defined());
    CHECK((var.value().data<float>()[0] < 1) == (i == 0));
    CHECK((steps.norm() == (i == 0 ? std::sqrt(27.0) : static_cast<double>(infinity))));
  }
  steps.begin(optimizer, 0.5);
  CHECK(soma_test::id_of([&] { steps.finish(); }) == "operator.value");
}
