// Stages write their own parts of a checkpoint and read their own names; the first rank saves and
// hashes the whole model one tensor at a time; whatever is killed, a whole checkpoint is left.

#include <soma/io/checkpoint_folder.hpp>
#include <soma/io/checkpoint_part_folder.hpp>
#include <soma/io/state_hash.hpp>

#include "io/child.hpp"
#include "io/samples.hpp"
#include "train/pipeline/pipeline_run.hpp"

#include "catch.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

PipelineRun run_of(std::size_t partitions, std::size_t microbatches, int replicas = 1,
                   const Precision& precision = {}) {
  PipelineRun run{
      .options = {.epochs = 2, .learning_rate = 2e-3, .seed = 5, .precision = precision}};
  run.options.pipeline.partitions = partitions == 0 ? 1 : partitions;
  run.options.pipeline.microbatches = microbatches;
  if (partitions == 2) run.options.pipeline.cuts = {"layer.1"};
  if (partitions == 3) run.options.pipeline.cuts = {"layer.1", "head"};
  run.plain = partitions == 0;
  run.replicas = replicas;
  run.later = !run.plain;
  return run;
}

// A folder's store, which counts what a rank is given of weights and moments.
struct CountingStore final : CheckpointStore {
  explicit CountingStore(std::unique_ptr<CheckpointStore> store) : inner(std::move(store)) {}
  void save(std::uint64_t step, const Checkpoint& checkpoint) override {
    for (const CheckpointState which : all_checkpoint_states)
      whole += checkpoint.state(which).size();
    inner->save(step, checkpoint);
  }
  bool load_latest(Context& context, Checkpoint& checkpoint) override {
    return inner->load_latest(context, checkpoint);
  }
  void save_best(const Checkpoint& checkpoint) override { inner->save_best(checkpoint); }
  bool load_best(Context& context, Checkpoint& checkpoint) override {
    return inner->load_best(context, checkpoint);
  }
  std::string begin_parts(std::optional<std::uint64_t> step) override {
    return inner->begin_parts(step);
  }
  void save_part(const std::string& place, CheckpointState which, const CheckpointPart& part,
                 const StateDict& state) override {
    for (const auto& [name, tensor] : state)
      if (which != CheckpointState::precision) written += tensor.bytes();
    inner->save_part(place, which, part, state);
  }
  void drop_parts() override { inner->drop_parts(); }
  std::string find_latest(Context& context) override { return inner->find_latest(context); }
  std::string find_best() override { return inner->find_best(); }
  Checkpoint load_named(Context& context, const std::string& place,
                        const CheckpointNames& names) override {
    Checkpoint loaded = inner->load_named(context, place, names);
    for (const StateDict* state : {&loaded.weights, &loaded.optimizer})
      for (const auto& [name, tensor] : *state) read += tensor.bytes();
    return loaded;
  }
  std::unique_ptr<CheckpointStore> inner;
  std::size_t whole = 0, written = 0, read = 0;
};

struct FolderRun {
  std::vector<PipelineResult> ranks{};
  std::vector<std::size_t> written{}, read{};
  std::size_t whole = 0;  // tensors that rank 0 was given to write in whole
};

FolderRun run_in(const std::string& folder, PipelineRun run) {
  std::vector<std::unique_ptr<CountingStore>> stores;
  for (int rank = 0; rank < run.ranks(); ++rank) {
    std::unique_ptr<CheckpointStore> store;
    if (rank == 0)
      store = std::make_unique<CheckpointFolder>(folder);
    else
      store = std::make_unique<CheckpointPartFolder>(folder);
    stores.push_back(std::make_unique<CountingStore>(std::move(store)));
  }
  const auto change = run.change;
  run.change = [&](int rank, train::TrainerOptions& options) {
    options.checkpoints = stores[static_cast<std::size_t>(rank)].get();
    if (change) change(rank, options);
  };
  FolderRun result{.ranks = run_pipeline(run)};
  for (const auto& store : stores) {
    result.written.push_back(store->written);
    result.read.push_back(store->read);
  }
  result.whole = stores.front()->whole;
  for (const std::string& name : names_in(folder)) CHECK_FALSE(name.ends_with(".partial"));
  return result;
}

// Weights and two moments of that many numbers, and of each parameter the number of its steps.
bool is_bytes_of(std::size_t bytes, std::size_t numbers) {
  constexpr std::size_t most_parameters = 80;
  return bytes >= 12 * numbers && bytes <= 12 * numbers + 8 * most_parameters;
}

}  // namespace

TEST_CASE("each stage writes its own and reads its own, whatever the stages before", "[unit]") {
  for (const Precision& precision : {Precision::fp32(), Precision::fp8_delayed()}) {
    const PipelineResult one = run_alone(run_of(1, 1, 1, precision));
    const TemporaryFolder folder;
    std::uint64_t stop = 0;
    const auto go_on = [&](std::size_t partitions, std::size_t microbatches, int replicas,
                           bool sharded, bool last = false) {
      INFO(precision.name << ": " << partitions << " partitions, " << replicas
                          << " replicas, sharded " << sharded);
      PipelineRun run = run_of(partitions, microbatches, replicas, precision);
      run.options.resume = stop != 0;
      run.options.shard_optimizer = sharded;
      run.stop_after = last ? 0 : ++stop;
      run.model_seed = stop == 1 ? 7 : 99;
      const FolderRun result = run_in(folder.path(), run);
      for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
        INFO("rank " << rank);
        const PipelineResult& own = result.ranks[rank];
        REQUIRE(own.error == "");
        if (last) CHECK(own.bits == one.bits);
        if (partitions < 2) continue;
        // Nothing is gathered: saving takes a few blocks for numbers of steps and for records.
        CHECK(own.save_bytes < 16 << 10);
        if (run.options.resume) CHECK(is_bytes_of(result.read[rank], own.own_parameters));
      }
      if (partitions < 2) return;
      CHECK(result.whole == 0);
      std::size_t all = 0;
      for (const std::size_t bytes : result.written) all += bytes;
      std::size_t numbers = 0;
      for (int stage = 0; stage < static_cast<int>(partitions); ++stage)
        numbers += result.ranks[static_cast<std::size_t>(stage)].own_parameters;
      // Ranks that share moments write the numbers of steps each.
      if (!sharded) CHECK(is_bytes_of(all, numbers));
      // The second replica of a stage has nothing to write.
      if (replicas == 2 && !sharded)
        for (std::size_t rank = partitions; rank < result.written.size(); ++rank)
          CHECK(result.written[rank] == 0);
      if (last) return;
      const std::string newest = folder / ("step-000000000" + std::to_string(stop));
      std::size_t weights = 0, moments = 0;
      for (const std::string& name : names_in(newest)) {
        weights += name.starts_with("weights-") ? 1u : 0u;
        moments += name.starts_with("optimizer-") ? 1u : 0u;
      }
      CHECK(weights == partitions);
      CHECK(moments == partitions * (sharded ? static_cast<std::size_t>(replicas) : 1));
    };
    go_on(2, 2, 1, false);
    {
      auto context = make_context({.threads = 1});
      PipelineRun alone = run_of(0, 1, 1, precision);
      alone.options.max_steps = 1;
      MemoryStore store(context);
      alone.store = &store;
      REQUIRE(run_pipeline(alone).front().error == "");
      Checkpoint same;
      REQUIRE(store.load_latest(context, same));
      const Checkpoint found = load_checkpoint(context, folder / "step-0000000001");
      CHECK(state_hash(found.weights) == state_hash(same.weights));
      CHECK(state_hash(found.optimizer) == state_hash(same.optimizer));
    }
    go_on(0, 1, 1, false);
    go_on(3, 4, 2, false);
    go_on(2, 1, 2, true);
    go_on(2, 2, 1, false, true);
  }
}

TEST_CASE("the first rank saves the whole model and holds one tensor more", "[unit]") {
  const TemporaryFolder folder;
  const std::string whole = folder / "whole.safetensors", streamed = folder / "one.safetensors";
  PipelineRun run = run_of(3, 2, 2);
  run.options.max_steps = 2;
  std::vector<std::size_t> taken(6);
  std::uint64_t hash = 0, whole_hash = 0;
  std::size_t defined = 0;
  std::string error;
  run.behind_fit = [&](int rank, Context& context, train::PipelineTrainer& trainer,
                       const Parameters& parameters) {
    // An action that fails ends nobody else.
    try {
      trainer.on_first([](TensorSource& tensors) {
        tensors.fetch(tensors.entries().size() / 2);
        throw std::runtime_error("no room");
      });
    } catch (const std::runtime_error& problem) {
      error += problem.what();
    }
    const std::size_t before = context.heap().bytes_in_use();
    context.heap().reset_peak();
    trainer.on_first([&](TensorSource& tensors) {
      for (const auto& [name, tensor] : tensors.entries()) defined += tensor.defined();
      save_safetensors(streamed, tensors);
      hash = state_hash(tensors);
    });
    taken[static_cast<std::size_t>(rank)] = context.heap().peak_bytes() - before;
    trainer.gather();
    if (rank != 0) return;
    const StateDict all = nn::state_dict(parameters);
    save_safetensors(whole, all);
    whole_hash = state_hash(all);
  };
  for (const PipelineResult& rank : run_pipeline(run)) REQUIRE(rank.error == "");
  CHECK(error == "no room");  // on one rank
  CHECK(defined == 0);
  CHECK(hash == whole_hash);
  CHECK(read_text(streamed) == read_text(whole));
  // The largest tensor of another stage, and a block beside it that counts who holds it.
  constexpr std::size_t largest = 4 * 256 * 32;
  CHECK(taken[0] >= largest);
  CHECK(taken[0] <= largest + 4 * 64);
  for (std::size_t rank = 1; rank < taken.size(); ++rank) CHECK(taken[rank] <= 4 * 64);
}

TEST_CASE("without a store for each stage a run does not begin", "[unit]") {
  const TemporaryFolder folder, elsewhere;
  PipelineRun run = run_of(2, 2);
  run.change = [](int rank, train::TrainerOptions& options) {
    if (rank == 1) options.checkpoints = nullptr;
  };
  for (const PipelineResult& rank : run_in(folder.path(), run).ranks) {
    CHECK(rank.id == "parallel.mismatch");
    CHECK(rank.steps.empty());
  }
  CheckpointPartFolder lost(elsewhere.path());
  run.change = [&](int rank, train::TrainerOptions& options) {
    if (rank == 1) options.checkpoints = &lost;
  };
  const FolderRun result = run_in(folder.path(), run);
  CHECK(result.ranks[0].id == "parallel.rank_lost");
  CHECK(result.ranks[1].id == "checkpoint.parts");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"lock"});
}

TEST_CASE("whenever a pipeline is killed, in a step or while it saves, it goes on", "[unit]") {
  PipelineRun run = run_of(2, 2);
  run.options.epochs = 8;  // 24 steps
  run.dropout = false;
  const std::uint64_t wanted = run_alone(run).bits;
  run.options.checkpoint_every = 1;
  run.options.resume = true;
  const TemporaryFolder folder;
  std::uint64_t newest = 0, random = 777;
  for (int round = 0; round < 8 && newest < 20; ++round) {
    const std::uint64_t reported = last_report_of_killed(random, [&](const auto& report) {
      PipelineRun killed = run;
      // Behind a step the checkpoint of the step before is whole.
      killed.on_step = [&](int rank, const train::StepInfo& step) {
        if (rank == 0) report(step.step - 1);
      };
      run_in(folder.path(), killed);
      for (;;) pause();
    });
    auto context = make_context({.threads = 1});
    CheckpointFolder store(folder.path());
    Checkpoint checkpoint;
    newest = store.load_latest(context, checkpoint) ? checkpoint.progress.count("step") : 0;
    REQUIRE(newest >= reported);
  }
  for (const PipelineResult& rank : run_in(folder.path(), run).ranks) {
    REQUIRE(rank.error == "");
    CHECK(rank.report.first_step == newest);
    CHECK(rank.bits == wanted);
  }
}
