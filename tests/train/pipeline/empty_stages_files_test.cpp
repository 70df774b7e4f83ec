// Stages with nothing to differentiate or nothing to step: pieces that return their input, and
// stages without parameters. They end with the weights of one process; mistakes end in errors.

#include <soma/io/checkpoint_folder.hpp>
#include <soma/io/checkpoint_part_folder.hpp>
#include <soma/nn.hpp>
#include <soma/parallel/in_process.hpp>
#include <soma/pipeline.hpp>
#include <soma/soma.hpp>
#include <soma/train.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace soma;

namespace {

using Model = nn::Sequential;
using Build = std::function<Model(Context&)>;
using Change = std::function<void(int rank, train::TrainerOptions&)>;

struct Result {
  std::vector<float> weights{};
  std::vector<double> norms{};
  std::string error{}, id{};
};

struct Norms final : train::Callback {
  void on_step(const train::StepInfo& step) override { all.push_back(step.gradient_norm); }
  std::vector<double> all{};
};

// A training of rows of eight numbers in three classes. `cuts` empty and one rank: one process.
std::vector<Result> train_model(const Build& build, std::vector<std::string> cuts, int replicas = 1,
                                const Change& change = {}, std::size_t partitions = 0) {
  if (partitions == 0) partitions = cuts.size() + 1;
  std::vector<float> numbers;
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 48 * 8; ++i) numbers.push_back(std::sin(0.37f * static_cast<float>(i % 997)));
  for (int i = 0; i < 48; ++i) labels.push_back(i * i % 3);
  const int ranks = static_cast<int>(partitions) * replicas;
  InProcessGroup group(ranks);
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Result& result = results[static_cast<std::size_t>(rank)];
      try {
        auto context = make_context({.threads = 1});
        InProcessCommunicator communicator(group, rank);
        communicator.set_time_limit(20);
        Model model = build(context);
        nn::ClassificationTask<Model> task(model, 3);
        data::ArraySource source(context, Tensor::from(context, numbers, Shape{48, 8}),
                                 Tensor::from(context, labels, Shape{48}), {.batch_sequences = 16});
        train::TrainerOptions options{.epochs = 1, .learning_rate = 1e-2, .clip = 0.5f};
        options.communicator = &communicator;
        options.pipeline.partitions = partitions;
        options.pipeline.cuts = cuts;
        if (change) change(rank, options);
        train::PipelineTrainer trainer(context, task, options);
        Norms norms;
        trainer.add(norms);
        trainer.fit(source);
        trainer.gather(true);
        result.norms = norms.all;
        for (const Parameter& parameter : task.parameters())
          for (const float value : soma_test::values(context, parameter.value()))
            result.weights.push_back(value);
      } catch (const Error& error) {
        result.error = error.what();
        result.id = std::string(error.id().name);
      }
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

void check_same(const std::vector<Result>& ranks, const Result& one) {
  REQUIRE(one.error == "");
  REQUIRE_FALSE(one.weights.empty());
  for (const Result& rank : ranks) {
    REQUIRE(rank.error == "");
    CHECK(rank.weights == one.weights);
    CHECK(rank.norms == one.norms);
  }
}

Var same(Tape&, const Var& x) { return x; }

// Pieces with parameters ("a", "c"), without ("gelu", "tail"), and such that return their input.
Model mixed(Context& context) {
  const nn::Scope root{context, 5};
  Model model;
  model.add("first", same);
  model.add("gelu", [](Tape& tape, const Var& x) { return gelu(tape, x); });
  model.add("a", nn::Linear(root / "a", 8, 16));
  model.add("dropout", nn::Dropout(root / "dropout", 0));
  model.add("same", same);
  model.add("c", nn::Linear(root / "c", 16, 3));
  model.add("tail", [](Tape& tape, const Var& x) { return tanh(tape, x); });
  model.add("last", same);
  return model;
}

}  // namespace

TEST_CASE("pieces that return their input and stages without parameters: one process's bits",
          "[unit]") {
  const Result one = train_model(mixed, {})[0];
  const std::vector<std::vector<std::string>> all = {
      {"gelu"},          // a first stage that returns the batch
      {"a"},             // a first stage without parameters
      {"dropout"},       // one that begins with pieces that return their input
      {"same"},          // one that ends with such a piece
      {"tail"},          // a last stage without parameters
      {"last"},          // a last stage that returns its input
      {"dropout", "c"},  // a stage in the middle that returns its input
      {"a", "tail"},     // no parameters at both ends
      {"gelu", "a", "dropout", "same", "c"},
      {"gelu", "a", "dropout", "same", "c", "tail", "last"},
  };
  for (const std::vector<std::string>& cuts : all)
    for (const std::size_t microbatches : {1u, 4u}) {
      INFO(cuts.front() << " and " << cuts.size() - 1 << " more, " << microbatches);
      check_same(train_model(mixed, cuts, 1,
                             [&](int, train::TrainerOptions& options) {
                               options.pipeline.microbatches = microbatches;
                             }),
                 one);
    }
  for (const bool sharded : {false, true}) {
    INFO((sharded ? "shard_optimizer" : "replicas"));
    check_same(train_model(
                   mixed, {"a", "dropout", "c"}, 2,
                   [&](int, train::TrainerOptions& options) { options.shard_optimizer = sharded; }),
               one);
  }
}

TEST_CASE("the profiler measures pieces that return their input", "[unit]") {
  const Result one = train_model(mixed, {})[0];
  for (const std::size_t partitions : {2u, 4u, 8u}) {
    INFO(partitions);
    check_same(train_model(mixed, {}, 1, {}, partitions), one);
  }
}

TEST_CASE("every optimizer leaves a stage without parameters alone", "[unit]") {
  for (const char* name : {"bf16", "fp32"}) {
    const Change change = [&](int, train::TrainerOptions& options) {
      if (std::string(name) == "bf16") options.precision = Precision::bf16();
      options.accumulate = 2;
    };
    check_same(train_model(mixed, {"a", "tail"}, 1, change), train_model(mixed, {}, 1, change)[0]);
  }
}

TEST_CASE("a stage without parameters saves and resumes", "[unit]") {
  const soma_test::TemporaryFolder folder;
  const auto run = [&](std::vector<std::string> cuts, std::uint64_t epochs, const char* name) {
    const std::size_t ranks = cuts.size() + 1;
    std::vector<std::unique_ptr<CheckpointStore>> stores;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (rank == 0)
        stores.push_back(std::make_unique<CheckpointFolder>(folder / name));
      else
        stores.push_back(std::make_unique<CheckpointPartFolder>(folder / name));
    return train_model(mixed, cuts, 1, [&](int rank, train::TrainerOptions& options) {
      options.epochs = epochs;
      options.checkpoint_every = 1;
      options.resume = true;
      options.schedule = {};  // does not depend on the length of the run
      options.checkpoints = stores[static_cast<std::size_t>(rank)].get();
    });
  };
  const Result whole = run({}, 2, "whole")[0];
  REQUIRE(whole.error == "");
  for (const Result& half : run({"a", "tail"}, 1, "parts")) REQUIRE(half.error == "");
  const std::vector<Result> resumed = run({"gelu", "c"}, 2, "parts");  // as other stages
  for (const Result& rank : resumed) {
    REQUIRE(rank.error == "");
    CHECK(rank.weights == whole.weights);
  }
}

TEST_CASE("a run in which no process has a gradient is refused", "[unit]") {
  // The model's parameters are not used: backward of the loss has nothing to do with them.
  const Build unused = [](Context& context) {
    const nn::Scope root{context, 5};
    Model model;
    model.add("a", nn::Linear(root / "a", 8, 3));
    model.add("detached", [](Tape& tape, const Var& x) { return tape.detach(x); });
    return model;
  };
  const Result one = train_model(unused, {})[0];
  CHECK(one.id == "autograd.no_gradient");
  for (const Result& rank : train_model(unused, {"detached"})) CHECK_FALSE(rank.error.empty());

  auto context = make_context();
  const Var w = Var::parameter(context, Tensor::zeros(context, Shape{2}));
  optim::Sgd sgd(context, Parameters{{"w", w}});
  CHECK_THROWS_WITH(sgd.step({.rate = 1}), soma_test::contains("gradients is none"));
  sgd.step({.rate = 1, .may_be_empty = true});
  CHECK(soma_test::values(context, w.value()) == std::vector<float>{0, 0});
}

TEST_CASE("a piece that uses another piece's variable ends in an error that says so", "[unit]") {
  const Build borrowed = [](Context& context) {
    const nn::Scope root{context, 5};
    Model model;
    const auto layer = std::make_shared<nn::Linear>(root / "a", 8, 8);
    model.add("a", *layer);
    model.add("b", nn::Linear(root / "b", 8, 8));
    model.add("again", [layer](Tape& tape, const Var& x) { return (*layer)(tape, x); });
    model.add("c", nn::Linear(root / "c", 8, 3));
    return model;
  };
  REQUIRE(train_model(borrowed, {})[0].error == "");
  const std::vector<Result> cut = train_model(borrowed, {"b"});
  CHECK(cut[1].id == "operator.inputs");
  CHECK(cut[1].error.find("input 1 is a variable without a value, [8, 8] fp32") !=
        std::string::npos);
  CHECK(cut[1].error.find("its pieces list") != std::string::npos);
  CHECK_FALSE(cut[0].error.empty());
  // Where pieces are measured first, the piece and the variable have their names.
  const std::vector<Result> measured = train_model(borrowed, {}, 1, {}, 2);
  CHECK(measured[0].id == "train.options");
  CHECK(measured[0].error.find("\"again\"") != std::string::npos);
  CHECK(measured[0].error.find("\"a.weight\"") != std::string::npos);
}
