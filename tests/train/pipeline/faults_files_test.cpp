// Pipelines in which something goes wrong or comes late, what is refused before data are read, and
// the decision file.

#include <soma/io/record_json.hpp>

#include "train/pipeline/pipeline_run.hpp"

#include "catch.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

PipelineRun run_of(std::size_t partitions, std::size_t microbatches) {
  PipelineRun run{.options = {.max_steps = 2, .learning_rate = 2e-3, .seed = 5}};
  run.options.pipeline.partitions = partitions;
  run.options.pipeline.microbatches = microbatches;
  if (partitions == 2) run.options.pipeline.cuts = {"layer.1"};
  return run;
}

// A scalar times a weight, twice; a task whose pieces may fail.
struct TwoScalars {
  explicit TwoScalars(Context& context)
      : first(Var::parameter(context, Tensor::full(context, {1, 1}, 1.0f))),
        second(Var::parameter(context, Tensor::full(context, {1, 1}, 1.0f))) {}
  Var run(std::size_t piece, Tape& tape, const Var& x) const {
    if (before) before(piece);
    return linear(tape, x, piece == 0 ? first : second);
  }
  Var operator()(Tape& tape, const Var& x) const { return run(1, tape, run(0, tape, x)); }
  nn::Pieces pieces() const {
    nn::Pieces result;
    result.emplace_back("first", Parameters{{"first", first}},
                        [this](Tape& tape, const Var&, const data::Batch& batch) {
                          return run(0, tape, tape.constant(batch.inputs));
                        });
    result.emplace_back(
        "second", Parameters{{"second", second}},
        [this](Tape& tape, const Var& x, const data::Batch&) { return run(1, tape, x); }, mixes);
    return result;
  }
  void collect(nn::Collector& collector) const {
    collector.add("first", first);
    collector.add("second", second);
  }
  Var first, second;
  std::function<void(std::size_t)> before{};
  bool mixes = false;
};

// An exception of a stage without a message.
struct Leaving {};

struct ScalarResult {
  std::string error{}, id{};
  std::vector<float> weights{};
};

using Change = std::function<void(int rank, TwoScalars&, train::TrainerOptions&)>;

// A stop for all ranks, and how many of them have ended.
struct Stopping {
  train::StopFlag stop{};
  std::atomic<int> ended{0};
};

// Two ranks, x 1, target 0, squared error, a step of plain gradient descent with rate 0.25.
std::vector<ScalarResult> run_scalars(std::size_t microbatches, const Change& change = {},
                                      int ranks = 2, double time_limit = 20,
                                      Stopping* stopping = nullptr) {
  InProcessGroup group(ranks);
  std::vector<ScalarResult> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ScalarResult& result = results[static_cast<std::size_t>(rank)];
      try {
        InProcessCommunicator communicator(group, rank);
        communicator.set_time_limit(time_limit);
        auto context = make_context({.threads = 1});
        TwoScalars model(context);
        train::TrainerOptions options{.max_steps = 1,
                                      .learning_rate = 0.25,
                                      .schedule = {.decay = optim::Decay::constant},
                                      .clip = 0,
                                      .communicator = &communicator};
        options.pipeline = {.partitions = 2, .microbatches = microbatches, .cuts = {"second"}};
        if (change) change(rank, model, options);
        nn::RegressionTask task(model);
        optim::Sgd sgd(context, {{.parameters = task.parameters()}});
        options.optimizer = &sgd;
        data::ArraySource source(context, Tensor::full(context, {8, 1}, 1.0f),
                                 Tensor::zeros(context, {8, 1}), {.batch_sequences = 8});
        train::PipelineTrainer trainer(context, task, options);
        trainer.fit(source, nullptr, stopping == nullptr ? nullptr : &stopping->stop);
        trainer.gather(true);
        for (const Parameter& parameter : task.parameters())
          result.weights.push_back(parameter.value().span<float>()[0]);
      } catch (const Error& error) {
        result.error = error.what();
        result.id = std::string(error.id().name);
      } catch (const std::exception& error) {
        result.error = error.what();
      } catch (const Leaving&) {
        result.error = "left";
      }
      if (stopping != nullptr) ++stopping->ended;
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::string id_of_scalars(const std::function<void(train::TrainerOptions&)>& change,
                          std::size_t microbatches = 2, int ranks = 2) {
  const auto results = run_scalars(
      microbatches, [&](int, TwoScalars&, train::TrainerOptions& options) { change(options); },
      ranks);
  // The first that is not an echo of another rank's.
  for (const ScalarResult& result : results)
    if (!result.error.empty() && result.id != "parallel.rank_lost") return result.id;
  return results.front().id;
}

}  // namespace

TEST_CASE("two scalar layers have the gradients of a hand calculation", "[unit]") {
  // y = w2 w1 x, mean of (y - 0)^2: both gradients are 2, whatever the micro-batches.
  for (const std::size_t microbatches : {1u, 2u, 8u})
    for (const ScalarResult& rank : run_scalars(microbatches)) {
      REQUIRE(rank.error == "");
      CHECK(rank.weights == std::vector<float>{0.5f, 0.5f});  // 1 - 0.25 x 2
    }
}

TEST_CASE("what ends a stage at any micro-batch ends all ranks", "[unit]") {
  for (const bool leaves : {false, true})
    for (std::size_t stage = 0; stage < 2; ++stage)
      for (int at = 0; at < 4; ++at) {
        INFO("stage " << stage << ", micro-batch " << at << ", leaves " << leaves);
        const auto results = run_scalars(4, [&](int, TwoScalars& model, train::TrainerOptions&) {
          model.before = [=, calls = 0](std::size_t piece) mutable {
            if (piece != stage || calls++ != at) return;
            if (leaves) throw Leaving();
            throw std::runtime_error("on purpose");
          };
        });
        CHECK(results[stage].error == (leaves ? "left" : "on purpose"));
        CHECK(results[1 - stage].id == "parallel.rank_lost");
        const std::string_view reason = leaves ? "not a std::exception" : "on purpose";
        CHECK(results[1 - stage].error.find(reason) != std::string::npos);
      }
}

TEST_CASE("a stop ends the wait for a stage that hangs at any micro-batch", "[unit]") {
  for (std::size_t stage = 0; stage < 2; ++stage)
    for (int at = 0; at < 2; ++at) {
      INFO("stage " << stage << ", micro-batch " << at);
      Stopping stopping;
      // It hangs until the other one has ended, which after the time limit would be another error.
      const auto results = run_scalars(
          2,
          [&](int, TwoScalars& model, train::TrainerOptions& options) {
            options.stop_patience = 0;
            model.before = [&stopping, stage, at, calls = 0](std::size_t piece) mutable {
              if (piece != stage || calls++ != at) return;
              stopping.stop.request();
              while (stopping.ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            };
          },
          2, 20, &stopping);
      CHECK(results[1 - stage].id == "runtime.stopped");
      CHECK(results[stage].id == "parallel.rank_lost");
    }
}

TEST_CASE("a stage that does not answer is named", "[unit]") {
  const auto results = run_scalars(
      4,
      [](int, TwoScalars& model, train::TrainerOptions&) {
        model.before = [calls = 0](std::size_t piece) mutable {
          if (piece == 0 && calls++ == 2)
            std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        };
      },
      2, 0.4);
  CHECK(results[1].id == "parallel.timeout");
  CHECK(results[1].error.find("stage 1, forward of micro-batch 2") != std::string::npos);
}

TEST_CASE("delays change no bit", "[unit]") {
  PipelineRun run = run_of(2, 4);
  run.replicas = 2;
  const std::uint64_t wanted = run_pipeline(run).front().bits;
  // Ranks that compute with one thread or three, one of which sleeps between steps.
  run.threads = {3, 1};
  run.on_step = [](int rank, const train::StepInfo&) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
  };
  for (const PipelineResult& rank : run_pipeline(run)) {
    REQUIRE(rank.error == "");
    CHECK(rank.bits == wanted);
  }
  const auto delayed = run_scalars(4, [](int, TwoScalars& model, train::TrainerOptions&) {
    model.before = [random = std::mt19937(4)](std::size_t) mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 8));
    };
  });
  CHECK(delayed[0].weights == std::vector<float>{0.5f, 0.5f});
}

TEST_CASE("what cannot be a pipeline is refused before data are read", "[unit]") {
  const auto with = [](auto member, auto value) {
    return [=](train::TrainerOptions& options) { options.pipeline.*member = value; };
  };
  using Options = train::PipelineOptions;
  CHECK(id_of_scalars([](train::TrainerOptions&) {}).empty());
  CHECK(id_of_scalars(with(&Options::partitions, std::size_t{0})) == "train.options");
  CHECK(id_of_scalars(with(&Options::partitions, std::size_t{3})) == "train.options");
  CHECK(id_of_scalars(with(&Options::microbatches, std::size_t{0})) == "train.options");
  CHECK(id_of_scalars(with(&Options::microbatches, std::size_t{3})) == "train.options");
  CHECK(id_of_scalars(with(&Options::microbatches, std::size_t{16})) == "train.options");
  CHECK(id_of_scalars(with(&Options::cuts, std::vector<std::string>{"third"})) == "parallel.plan");
  CHECK(id_of_scalars(with(&Options::cuts, std::vector<std::string>{"first"})) == "parallel.plan");
  CHECK(id_of_scalars(with(&Options::cuts, std::vector<std::string>{"second", "second"})) ==
        "parallel.plan");
  CHECK(id_of_scalars(with(&Options::network, -1.0)) == "train.options");
  const auto three_pieces = [](train::TrainerOptions& options) {
    options.pipeline.partitions = 3;
    options.pipeline.cuts.clear();
  };
  CHECK(id_of_scalars(three_pieces, 2, 3) == "train.options");  // above the pieces
  // Three replicas.
  CHECK(id_of_scalars(with(&Options::partitions, std::size_t{1}), 2, 3) == "train.options");
  const auto mixing =
      run_scalars(2, [](int, TwoScalars& model, train::TrainerOptions&) { model.mixes = true; });
  CHECK(mixing[0].id == "train.options");
  const auto unequal = run_scalars(2, [](int rank, TwoScalars&, train::TrainerOptions& options) {
    if (rank == 1) options.pipeline.optimize = train::Optimize::speed;
  });
  CHECK(unequal[0].id == "parallel.mismatch");
  CHECK(unequal[1].id == "parallel.mismatch");
  CHECK(unequal[1].error.find("optimize") != std::string::npos);
  // A trainer without pipelines.
  auto context = make_context({.threads = 1});
  SmallModel small(context);
  train::TrainerOptions options;
  options.pipeline.microbatches = 2;
  CHECK_THROWS_WITH(train::Trainer(context, small.task, options), contains("PipelineTrainer"));
}

TEST_CASE("a decision is made once, kept, used, and refused where it is another's", "[unit]") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("soma_pipeline_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "cut.json").string();
  PipelineRun run = run_of(2, 2);
  run.options.pipeline.cuts.clear();
  run.options.pipeline.decision = file;
  const PipelineResult one = run_alone(run);
  const auto read = [&] {
    std::ifstream stream(file);
    std::stringstream text;
    text << stream.rdbuf();
    return text.str();
  };
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
  for (const bool later : {false, true}) {
    std::filesystem::remove(file);
    run.later = later;
    for (const PipelineResult& rank : run_pipeline(run)) {
      REQUIRE(rank.error == "");
      CHECK(rank.bits == one.bits);
    }
  }
  const std::string made = read();
  const Record record = record_from_json(made, "decision");
  CHECK(record.count("partitions") == 2);
  CHECK(record.number("piece.layer.0.backward_seconds") > 0);
  CHECK(record.count("piece.layer.0.saved_bytes") > 0);
  // Used as it is: another cut than would be made.
  Record changed = record;
  changed.set("cut.1", "head");
  write(to_json(changed));
  const std::vector<PipelineResult> ranks = run_pipeline(run);
  REQUIRE(ranks[1].error == "");
  CHECK(ranks[1].own_parameters == 32 * 32 + 32 + 32 * 2 + 2);  // pooler and classifier
  CHECK(ranks[0].bits == one.bits);
  CHECK(read() == to_json(changed));
  const auto refused = [&](const std::string& text) {
    write(text);
    const std::vector<PipelineResult> all = run_pipeline(run);
    CHECK(all[1].id == "parallel.rank_lost");
    return all[0].id;
  };
  CHECK(refused("{") == "record.json");
  CHECK(refused(made.substr(0, made.size() / 2)) == "record.json");
  CHECK(refused("{}") == "record.missing");
  changed.set("fingerprint", "0");
  CHECK(refused(to_json(changed)) == "parallel.plan");
  changed = record;
  changed.set("partitions", 3);
  CHECK(refused(to_json(changed)) == "parallel.plan");
  std::filesystem::remove_all(folder);
}

TEST_CASE("a rank needs what its stage needs", "[unit]") {
  PipelineRun run = run_of(2, 2);
  run.later = true;
  const std::vector<PipelineResult> ranks = run_pipeline(run);
  const PipelineResult one = run_alone(run);
  std::size_t all = 0;
  for (const PipelineResult& rank : ranks) {
    REQUIRE(rank.error == "");
    all += rank.own_parameters;
    // After a step: weights, gradients, two moments, and a batch with what else is small.
    CHECK(rank.bytes >= 16 * rank.own_parameters);
    CHECK(rank.bytes < one.bytes);
  }
  CHECK(16 * all < one.bytes);  // each parameter is on one rank
}

TEST_CASE("the profile predicts what micro-batches in flight hold", "[unit]") {
  for (const train::Pipeline schedule : {train::Pipeline::simple, train::Pipeline::interleaved}) {
    InProcessGroup group(2);
    std::vector<double> predicted(2), measured(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        InProcessCommunicator communicator(group, rank);
        communicator.set_time_limit(60);
        auto context = make_context({.threads = 1});
        const models::Mlp model(nn::Scope{context}, std::vector<std::size_t>{64, 96, 96, 96, 10});
        nn::ClassificationTask task(model, 10);
        data::ArraySource source(context, Tensor::full(context, {512, 64}, 0.5f),
                                 Tensor::full(context, {512}, std::int64_t{1}),
                                 {.batch_sequences = 256});
        train::TrainerOptions options{.max_steps = 2, .communicator = &communicator};
        options.pipeline = {.partitions = 2, .microbatches = 4, .schedule = schedule};
        train::PipelineTrainer trainer(context, task, options);
        trainer.fit(source);
        predicted[static_cast<std::size_t>(rank)] = trainer.predicted_activations();
        measured[static_cast<std::size_t>(rank)] = static_cast<double>(trainer.memory().peak);
      });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t stage = 0; stage < 2; ++stage) {
      INFO("stage " << stage << ": " << predicted[stage] << ", " << measured[stage]);
      CHECK(predicted[stage] > 0);
      CHECK(predicted[stage] == measured[stage]);
    }
  }
}
