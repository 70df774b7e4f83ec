// A decoder whose head is the table of tokens, cut into the stages of a pipeline: the bits of one
// process, and equal copies of the table.

#include <soma/soma.hpp>

#include <soma/decoders.hpp>
#include <soma/io/checkpoint_folder.hpp>
#include <soma/io/checkpoint_part_folder.hpp>
#include <soma/io/state_hash.hpp>
#include <soma/nn.hpp>
#include <soma/nn/later.hpp>
#include <soma/parallel/in_process.hpp>
#include <soma/pipeline.hpp>

#include "catch.hpp"
#include "io/child.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "train/parallel_run.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace soma;
using models::LanguageModel;

const std::string folder = std::string(SOMA_TEST_DECODERS) + "/texts_gpt2";

struct StagesRun {
  std::size_t partitions = 1, microbatches = 1;
  int replicas = 1;
  bool plain = false;  // one process without a pipeline
  bool recompute = false, shard = false, later = true, freeze_table = false, average = false;
  std::optional<nn::LoraOptions> lora{};
  Precision precision = Precision::fp32();
  std::size_t accumulate = 1;
  double clip = 1;
  train::Pipeline schedule = train::Pipeline::interleaved;
  std::uint64_t stop_after = 0, epochs = 2;
  std::uint64_t evaluate_every = 0;
  CheckpointStore* store = nullptr;
  bool resume = false;
  std::function<std::unique_ptr<CheckpointStore>(int rank)> open_store{};  // in place of `store`
  std::function<void(std::uint64_t step)> report{};                        // on rank 0

  int ranks() const { return plain ? 1 : static_cast<int>(partitions) * replicas; }
};

struct StageResult {
  std::uint64_t bits = 0;               // all parameters
  std::vector<double> numbers{};        // losses and norms of the steps, and the last evaluation
  std::vector<std::uint64_t> tables{};  // the table behind each step, where the rank has one
  std::size_t copies = 0;
  std::string error{}, id{};
};

// Notes the table behind each step.
struct TableHook final : train::Callback {
  TableHook(Context& owner, const Parameter& watched, StageResult& to)
      : context(owner), table(watched), result(to) {}
  void on_step(const train::StepInfo& step) override {
    if (report) report(step.step);
    result.numbers.push_back(step.loss);
    result.numbers.push_back(step.gradient_norm);
    if (!table.value().defined()) return;
    StateDict state;
    state.set("table", table.value());
    result.tables.push_back(state_hash(state));
  }
  Context& context;
  const Parameter& table;
  StageResult& result;
  std::function<void(std::uint64_t step)> report{};
};

const std::vector<std::string>& some_texts() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < 24; ++i)
      all.push_back("the people of platform " + std::to_string(i * 7 % 10) +
                    (i % 3 == 0 ? " wait" : " wait at nine, and the train is late again"));
    return all;
  }();
  return texts;
}

StageResult run_stage(const StagesRun& run, int rank, Communicator* ranks) {
  auto context = make_context({.threads = 1 + rank % 2});
  nn::Later later;
  const bool postponed = run.later && !run.plain;
  LanguageModel model = LanguageModel::from_pretrained(context, folder,
                                                       {.length = 9,
                                                        .seed = 4,
                                                        .dropout = 0.1f,
                                                        .recompute = run.recompute,
                                                        .lora = run.lora,
                                                        .later = postponed ? &later : nullptr});
  if (run.freeze_table) nn::freeze(model.parameters(), "transformer.wte*");
  train::TrainerOptions options{.epochs = run.epochs,
                                .accumulate = run.accumulate,
                                .learning_rate = 1e-2,
                                .clip = run.clip,
                                .seed = 5,
                                .precision = run.precision,
                                .communicator = ranks,
                                .shard_optimizer = run.shard};
  options.evaluate_every = run.evaluate_every;
  options.resume = run.resume;
  if (run.average) options.average = train::AverageOptions{.decay = 0.9};
  const bool parts = run.shard || run.partitions > 1;
  if (rank == 0 || parts) options.checkpoints = run.store;
  const std::unique_ptr<CheckpointStore> opened = run.open_store ? run.open_store(rank) : nullptr;
  if (opened != nullptr) {
    options.checkpoints = opened.get();
    options.checkpoint_every = 1;
  }
  if (!run.plain) {
    options.pipeline = {.partitions = run.partitions,
                        .microbatches = run.microbatches,
                        .schedule = run.schedule,
                        .later = postponed ? &later : nullptr};
    if (run.partitions == 2) options.pipeline.cuts = {"layer.1"};
    if (run.partitions == 3) options.pipeline.cuts = {"layer.0", "head"};
  }
  const auto source = model.batches(some_texts(), {.batch_sequences = 16, .seed = 5});
  const auto held_out = model.batches(some_texts(), {.batch_sequences = 8, .shuffle = false});
  std::optional<train::PipelineTrainer> pipeline;
  std::optional<train::TrainerBase> plain;
  if (run.plain)
    plain.emplace(context, model, options);
  else
    pipeline.emplace(context, model, options);
  train::TrainerBase& trainer = run.plain ? *plain : *pipeline;
  const Parameter* table = nullptr;
  for (const Parameter& parameter : model.parameters())
    if (parameter.name == "transformer.wte.weight") table = &parameter;
  StageResult result;
  TableHook hook(context, *table, result);
  if (rank == 0) hook.report = run.report;
  trainer.add(hook);
  soma_test::Follower follower(rank == 0 ? run.stop_after : 0);
  trainer.add(follower);
  const train::Report report =
      trainer.fit(*source, run.evaluate_every != 0 ? held_out.get() : nullptr, &follower.stop);
  result.numbers.push_back(report.evaluation_loss);
  if (pipeline) {
    for (const Parameter& own : pipeline->own_parameters())
      if (own.name != table->name && own.var.is(table->var)) ++result.copies;
    pipeline->gather(true);
  }
  result.bits = soma_test::bits_of(context, model.parameters());
  return result;
}

std::vector<StageResult> run_stages(const StagesRun& run) {
  if (run.plain) return {run_stage(run, 0, nullptr)};
  InProcessGroup group(run.ranks());
  std::vector<StageResult> results(static_cast<std::size_t>(run.ranks()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < run.ranks(); ++rank)
    threads.emplace_back([&, rank] {
      StageResult& result = results[static_cast<std::size_t>(rank)];
      try {
        InProcessCommunicator communicator(group, rank);
        communicator.set_time_limit(60);
        result = run_stage(run, rank, &communicator);
      } catch (const Error& error) {
        result.error = error.what();
        result.id = std::string(error.id().name);
      } catch (const std::exception& error) {
        result.error = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

StageResult run_alone(StagesRun run) {
  run.plain = true;
  run.store = nullptr;
  run.stop_after = 0;
  run.resume = run.shard = false;
  return run_stages(run).front();
}

void check_same(const StagesRun& run, const StageResult& one) {
  INFO(run.partitions << " stages, " << run.microbatches << " micro-batches, " << run.replicas
                      << " replicas");
  std::size_t with_table = 0;
  for (const StageResult& rank : run_stages(run)) {
    REQUIRE(rank.error == "");
    CHECK(rank.bits == one.bits);
    REQUIRE(rank.numbers.size() == one.numbers.size());
    for (std::size_t i = 0; i < one.numbers.size(); ++i)
      CHECK(std::bit_cast<std::uint64_t>(rank.numbers[i]) ==
            std::bit_cast<std::uint64_t>(one.numbers[i]));
    if (rank.tables.empty()) continue;
    ++with_table;
    CHECK(rank.tables == one.tables);  // behind each step both copies are that of one process
  }
  const std::size_t stages = run.partitions == 1 ? 1 : 2;
  CHECK(with_table == stages * static_cast<std::size_t>(run.replicas));
}

}  // namespace

TEST_CASE("a decoder with a tied head in stages: the bits of one process", "[unit][models]") {
  const StageResult one = run_alone({});
  REQUIRE(one.error == "");
  for (const std::size_t partitions : {2u, 3u})
    for (const std::size_t microbatches : {1u, 2u, 4u})
      for (const int replicas : {1, 2})
        check_same({.partitions = partitions,
                    .microbatches = microbatches,
                    .replicas = replicas,
                    .later = microbatches != 2,
                    .schedule =
                        microbatches == 4 ? train::Pipeline::simple : train::Pipeline::interleaved},
                   one);
}

TEST_CASE("a tied head in stages with every other choice of a training", "[unit][models]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16_sr()})
    for (const int variant : {0, 1, 2, 3, 4, 5}) {
      INFO(precision.name << ", variant " << variant);
      StagesRun run{.partitions = 2, .microbatches = 2, .replicas = 2, .precision = precision};
      run.clip = variant == 1 ? 0.05 : 1;
      run.accumulate = variant == 0 || variant == 2 ? 2 : 1;
      run.recompute = run.shard = variant == 2;
      run.average = variant == 3;
      run.evaluate_every = variant == 3 ? 1 : 0;
      run.freeze_table = variant == 4;
      if (variant == 5) run.lora = nn::LoraOptions{.rank = 2, .dropout = 0.1f};
      if (variant == 1) run.partitions = 3;
      check_same(run, run_alone(run));
    }
}

TEST_CASE("a tied head in stages: stopped and resumed in other stages, or alone",
          "[unit][models]") {
  StagesRun run{.epochs = 4};
  run.evaluate_every = 2;
  const StageResult one = run_alone(run);
  auto context = make_context();
  for (const bool shard : {false, true}) {
    soma_test::MemoryStore store(context);
    run.store = &store;
    const auto go_on = [&](std::size_t partitions, int replicas, std::uint64_t until) {
      INFO(partitions << " stages until " << until);
      StagesRun part = run;
      part.plain = partitions == 0;
      part.partitions = partitions == 0 ? 1 : partitions;
      part.microbatches = part.plain ? 1 : 2;
      part.replicas = replicas;
      part.shard = shard && replicas > 1;
      part.stop_after = until;
      part.resume = until != 1;
      for (const StageResult& rank : run_stages(part)) {
        REQUIRE(rank.error == "");
        if (until == 0) CHECK(rank.bits == one.bits);
      }
    };
    go_on(2, 2, 1);
    go_on(0, 1, 2);
    go_on(3, 2, 3);
    go_on(2, 1, 0);
  }
}

TEST_CASE("a tied head in stages: killed at any moment, it goes on", "[unit][models]") {
  StagesRun run{.partitions = 2, .microbatches = 2, .replicas = 1, .epochs = 12};
  const StageResult one = run_alone(run);
  const soma_test::TemporaryFolder place;
  const auto run_in_place = [&](const std::function<void(std::uint64_t)>& report) {
    StagesRun part = run;
    part.resume = true;
    part.report = report;
    part.open_store = [&](int rank) -> std::unique_ptr<CheckpointStore> {
      if (rank == 0) return std::make_unique<CheckpointFolder>(place.path());
      return std::make_unique<CheckpointPartFolder>(place.path());
    };
    return run_stages(part);
  };
  std::uint64_t random = 7, newest = 0;
  for (int round = 0; round < 4 && newest < 20; ++round) {
    const std::uint64_t reported =
        soma_test::last_report_of_killed(random, [&](const auto& report) {
          // Behind a step the checkpoint of the step before is whole.
          run_in_place([&](std::uint64_t step) { report(step - 1); });
          for (;;) pause();
        });
    auto context = make_context({.threads = 1});
    CheckpointFolder store(place.path());
    Checkpoint checkpoint;
    newest = store.load_latest(context, checkpoint) ? checkpoint.progress.count("step") : 0;
    REQUIRE(newest >= reported);
  }
  for (const StageResult& rank : run_in_place({})) {
    REQUIRE(rank.error == "");
    CHECK(rank.bits == one.bits);
  }
}

TEST_CASE("an earlier stage uses a shared variable once", "[unit][models]") {
  InProcessGroup group(2);
  std::vector<std::string> ids(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      auto context = make_context({.threads = 1});
      const Var weight = Var::parameter(context, Tensor::full(context, {4, 4}, 0.5f));
      const Parameters own{{.name = "weight", .var = weight}};
      struct Twice {
        Parameters own;
        Parameters parameters() const { return own; }
        Var operator()(Tape& tape, const Var& x) const {
          return linear(tape, linear(tape, linear(tape, x, own[0].var), own[0].var), own[0].var);
        }
        void collect(nn::Collector& collector) const { collector.add("weight", own[0].var); }
        nn::Pieces pieces() const {
          nn::Pieces all;
          all.emplace_back("first", own, [this](Tape& tape, const Var&, const data::Batch& batch) {
            const Var x = tape.constant(batch.inputs);
            return linear(tape, linear(tape, x, own[0].var), own[0].var);
          });
          all.emplace_back("last", Parameters{},
                           [this](Tape& tape, const Var& x, const data::Batch&) {
                             return linear(tape, x, own[0].var);
                           });
          all.back().shared = own;
          return all;
        }
      };
      const Twice model{own};
      nn::ClassificationTask task(model, 4);
      data::ArraySource source(context, Tensor::full(context, {16, 4}, 0.5f),
                               Tensor::full(context, {16}, std::int64_t{1}),
                               {.batch_sequences = 8});
      InProcessCommunicator communicator(group, rank);
      communicator.set_time_limit(60);
      train::TrainerOptions options{.communicator = &communicator};
      options.pipeline = {.partitions = 2, .cuts = {"last"}};
      train::PipelineTrainer trainer(context, task, options);
      ids[static_cast<std::size_t>(rank)] = soma_test::id_of([&] { trainer.fit(source); });
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(ids[0] == "train.options");
  CHECK(ids[1] == "parallel.rank_lost");
}
