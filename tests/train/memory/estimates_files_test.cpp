// Estimates of memory before a run, against the peaks of the heaps of runs.

#include <soma/models/mlp.hpp>
#include <soma/pipeline.hpp>

#include "train/small_run.hpp"

#include "catch.hpp"

#include <soma/parallel/in_process.hpp>

#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace soma;

namespace {

struct MemoryCase {
  std::string name;
  bool text = true;  // a small BERT, else layers of the size of the digits net
  std::size_t vocabulary = 300, inner = 128, layers = 3;
  bool recompute = false, shard = false, longest_last = false, speed = false;
  bool average = false, keep_best = false;
  std::uint64_t evaluate_every = 0;
  std::optional<models::BertConfig> config{};  // in place of a small one
  std::size_t partitions = 2, replicas = 1, microbatches = 2, accumulate = 1;
  train::Pipeline schedule = train::Pipeline::interleaved;
  Precision precision = Precision::fp32();

  std::vector<std::size_t> cuts{};  // the first pieces of later stages; none: they are chosen
  bool plain() const { return partitions == 1 && microbatches == 1; }
};

struct MemoryOfRank {
  std::size_t heap = 0, weights = 0;
  train::MemoryEstimate estimate{};
  std::string error{};
};

// 48 texts of 16 tokens, or short ones before 16 long ones.
data::TokenLists texts_of(const MemoryCase& run) {
  std::mt19937 random(3);
  data::TokenLists lists;
  for (std::size_t i = 0; i < 48; ++i) {
    const std::size_t length = !run.longest_last ? 16 : i >= 32 ? 24 : 4 + random() % 14;
    std::vector<std::int32_t> ids;
    for (std::size_t j = 0; j < length; ++j)
      ids.push_back(static_cast<std::int32_t>(random() % run.vocabulary));
    lists.add(ids, static_cast<std::int32_t>(i % 2));
  }
  return lists;
}

train::MemoryEstimate estimate_of(Context& context, nn::Task& task, data::BatchSource& source,
                                  const train::TrainerOptions& options, const MemoryCase& run,
                                  std::size_t stage) {
  const nn::Pieces pieces = task.pieces();
  const std::size_t parts = run.microbatches * run.replicas;
  const train::PlanCosts costs = train::measure_costs(
      context, task, pieces, options, train::known_plan(pieces, task.parameters(), {}).pieces,
      train::read_batch_sizes(context, source, train::batches_to_read(options, source)), source,
      {.timed = {parts}, .others = train::parts_up_to(parts)});
  const train::PlanLayout layout{.partitions = run.partitions,
                                 .replicas = run.replicas,
                                 .microbatches = run.microbatches,
                                 .schedule = run.schedule,
                                 .shard_optimizer = run.shard,
                                 .in_stages = !run.plain()};
  return costs.stages(layout, run.cuts).at(stage);
}

void train_rank(Context& context, nn::Task& task, data::BatchSource& source,
                train::TrainerOptions options, const MemoryCase& run, int rank,
                MemoryOfRank& result) {
  if (run.plain()) {
    train::TrainerBase trainer(context, task, options);
    result.estimate = estimate_of(context, task, source, options, run, 0);
    context.heap().reset_peak();
    trainer.fit(source, &source);
    for (const Parameter& parameter : task.parameters())
      result.weights += parameter.value().bytes();
  } else {
    const std::size_t stage =
        pipeline_position(static_cast<std::size_t>(rank), run.partitions * run.replicas,
                          run.partitions, options.pipeline.placement)
            .stage;
    if (!run.cuts.empty()) {
      const nn::Pieces pieces = task.pieces();
      for (const std::size_t cut : run.cuts) options.pipeline.cuts.push_back(pieces[cut].name);
      result.estimate = estimate_of(context, task, source, options, run, stage);
      context.heap().reset_peak();
    }
    train::PipelineTrainer trainer(context, task, options);
    trainer.fit(source, &source);
    if (run.cuts.empty()) result.estimate = trainer.estimates().at(stage);
    for (const Parameter& parameter : trainer.own_parameters())
      result.weights += parameter.value().bytes();
  }
  result.heap = context.heap().peak_bytes();
}

void run_rank(const MemoryCase& run, int rank, Communicator* ranks, MemoryOfRank& result) {
  auto context = make_context({.threads = 1});
  nn::Later later;
  nn::Later* const postponed = run.plain() ? nullptr : &later;
  train::TrainerOptions options{.epochs = 2,
                                .accumulate = run.accumulate,
                                .learning_rate = 1e-3,
                                .seed = 5,
                                .precision = run.precision,
                                .communicator = ranks,
                                .shard_optimizer = run.shard};
  if (run.average) options.average = train::AverageOptions{.decay = 0.9};
  options.keep_best = run.keep_best;
  options.evaluate_every = run.evaluate_every;
  options.pipeline = {.partitions = run.partitions,
                      .microbatches = run.microbatches,
                      .schedule = run.schedule,
                      .optimize = run.speed ? train::Optimize::speed : train::Optimize::memory,
                      .memory_limit = run.plain() ? 0 : std::uint64_t{1} << 40,
                      .later = postponed};
  const nn::Scope scope{context, 7, "", postponed};
  if (!run.text) {
    const models::Mlp model(scope, std::vector<std::size_t>{64, 96, 96, 96, 10});
    nn::ClassificationTask task(model, 10);
    data::ArraySource source(context, Tensor::full(context, {512, 64}, 0.5f),
                             Tensor::full(context, {512}, std::int64_t{1}),
                             {.batch_sequences = 64});
    return train_rank(context, task, source, options, run, rank, result);
  }
  models::BertConfig config = soma_test::small_config();
  config.vocabulary = run.vocabulary;
  config.layers = run.layers;
  config.heads = 4;
  config.inner = run.inner;
  if (run.config) config = *run.config;
  config.recompute = run.recompute;
  const models::BertClassifier model(scope, config, 2);
  nn::ClassificationTask task(model, 2);
  data::TokenSource source(context, texts_of(run),
                           {.batch_sequences = 16, .shuffle = !run.longest_last, .seed = 3});
  train_rank(context, task, source, options, run, rank, result);
}

std::vector<MemoryOfRank> run_case(const MemoryCase& run) {
  std::vector<MemoryOfRank> results(run.partitions * run.replicas);
  if (results.size() == 1) {
    run_rank(run, 0, nullptr, results[0]);
    return results;
  }
  InProcessGroup group(static_cast<int>(results.size()));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        InProcessCommunicator communicator(group, static_cast<int>(rank));
        communicator.set_time_limit(60);
        run_rank(run, static_cast<int>(rank), &communicator, results[rank]);
      } catch (const std::exception& error) {
        results[rank].error = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Measured is 0.9 to 1 of the estimate: the bound holds and is close.
void check(const MemoryCase& run) {
  const std::vector<MemoryOfRank> ranks = run_case(run);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const MemoryOfRank& rank = ranks[i];
    INFO(run.name << ", rank " << i << " of " << run.partitions << " stages x " << run.replicas
                  << ", " << run.microbatches << " micro-batches, "
                  << (run.schedule == train::Pipeline::simple ? "simple" : "interleaved"));
    REQUIRE(rank.error == "");
    INFO("measured " << rank.heap << ", estimate " << rank.estimate.heap() << ": "
                     << to_string(rank.estimate));
    CHECK(rank.heap <= rank.estimate.heap());
    // The estimate is that of the replica with most rows.
    if (!run.shard)
      CHECK(static_cast<double>(rank.heap) >= 0.9 * static_cast<double>(rank.estimate.heap()));
    CHECK(rank.weights <= rank.estimate.weights);
  }
}

}  // namespace

TEST_CASE("the heap of one process and of replicas is estimated before the run", "[unit]") {
  MemoryCase one{.name = "one process", .partitions = 1, .microbatches = 1};
  check(one);
  one.text = false;
  check(one);
  one.accumulate = 3;
  check(one);
  one = {.name = "one process", .longest_last = true, .partitions = 1, .microbatches = 1};
  check(one);
  one.recompute = true;
  check(one);
  one = {.name = "a large table", .vocabulary = 20000, .partitions = 1, .microbatches = 1};
  check(one);
  for (const Precision& precision : {Precision::bf16_sr(), Precision::fp8_delayed()})
    check({.name = precision.name, .partitions = 1, .microbatches = 1, .precision = precision});
  check({.name = "replicas", .partitions = 1, .replicas = 2, .microbatches = 1});
  one = {.name = "average", .average = true, .partitions = 1, .microbatches = 1};
  check(one);
  one.name = "average and best weights";
  one.keep_best = true;
  check(one);
  one.precision = Precision::bf16_sr();
  check(one);
  check({.name = "shared states",
         .inner = 1024,
         .shard = true,
         .partitions = 1,
         .replicas = 4,
         .microbatches = 1});
}

TEST_CASE("the heap of each stage is estimated before the run", "[unit]") {
  for (const std::size_t microbatches : {1u, 2u, 4u, 8u})
    for (const train::Pipeline schedule : {train::Pipeline::simple, train::Pipeline::interleaved}) {
      MemoryCase run{.name = "text", .microbatches = microbatches, .schedule = schedule};
      check(run);
      run.name = "longest texts last";
      run.longest_last = true;
      check(run);
      run = {.name = "layers", .text = false, .microbatches = microbatches, .schedule = schedule};
      check(run);
    }
}

TEST_CASE("estimates of stages know tables, recomputation and formats", "[unit]") {
  for (const std::size_t microbatches : {2u, 8u})
    for (const train::Pipeline schedule : {train::Pipeline::simple, train::Pipeline::interleaved}) {
      const MemoryCase base{.name = "text", .microbatches = microbatches, .schedule = schedule};
      MemoryCase run = base;
      run.name = "a large table";
      run.vocabulary = 20000;
      check(run);
      run = base;
      run.name = "recomputation";
      run.recompute = true;
      check(run);
      for (const Precision& precision : {Precision::bf16_sr(), Precision::fp8_delayed()}) {
        run = base;
        run.name = precision.name;
        run.precision = precision;
        check(run);
      }
    }
}

TEST_CASE("estimates of more stages, of replicas of stages and of several batches", "[unit]") {
  check({.name = "speed", .speed = true, .partitions = 3, .microbatches = 8});
  check({.name = "four stages", .layers = 6, .partitions = 4, .microbatches = 8});
  check({.name = "shared states", .inner = 1024, .shard = true, .replicas = 2, .microbatches = 4});
  check({.name = "two batches a step", .microbatches = 4, .accumulate = 2});
  check({.name = "one stage", .partitions = 1, .microbatches = 4});
  check({.name = "best weights",
         .average = true,
         .keep_best = true,
         .evaluate_every = 2,
         .microbatches = 8});
}

// A stage may have a single piece, whose input's sequences are all that it knows of the text.
TEST_CASE("estimates of stages hold wherever a model is cut", "[unit]") {
  for (const train::Pipeline schedule : {train::Pipeline::simple, train::Pipeline::interleaved})
    for (std::size_t first = 1; first < 4; ++first)
      for (std::size_t second = first + 1; second < 5; ++second)
        check({.name = "cuts " + std::to_string(first) + " and " + std::to_string(second),
               .partitions = 3,
               .microbatches = 8,
               .schedule = schedule,
               .cuts = {first, second}});
}

TEST_CASE("models of the sizes that people train have estimates that hold", "[slow]") {
  for (models::BertConfig config : {models::BertConfig::small(), models::BertConfig::minilm()}) {
    config.vocabulary = 4000;
    for (const std::size_t microbatches : {1u, 4u})
      for (const std::size_t partitions : {1u, 2u})
        for (const bool recompute : {false, true})
          check({.name = std::to_string(config.width) + " wide",
                 .vocabulary = 4000,
                 .recompute = recompute,
                 .longest_last = true,
                 .config = config,
                 .partitions = partitions,
                 .microbatches = microbatches});
  }
}
