// Ranks that share an optimizer's states write a checkpoint together, into one folder.

#include <soma/io/checkpoint_folder.hpp>
#include <soma/io/checkpoint_part_folder.hpp>
#include <soma/io/state_hash.hpp>

#include "io/samples.hpp"
#include "train/parallel_run.hpp"

#include "catch.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;
using train::TrainerOptions;

namespace {

namespace fs = std::filesystem;

// 0 ranks: without a communicator.
struct Way {
  int ranks = 0;
  bool sharded = false;
};

ParallelRun run_of(const Precision& precision = {}) {
  return {.options = {.epochs = 2, .learning_rate = 2e-3, .seed = 5, .precision = precision}};
}

// The run with a store for each rank that needs one; all go away with the run.
std::vector<RankRun> run_in(const std::string& folder, ParallelRun run, const Way& way) {
  run.ranks = way.ranks;
  run.options.shard_optimizer = way.sharded;
  std::vector<std::unique_ptr<CheckpointStore>> stores;
  stores.push_back(std::make_unique<CheckpointFolder>(folder));
  for (int rank = 1; rank < way.ranks; ++rank)
    stores.push_back(way.sharded ? std::make_unique<CheckpointPartFolder>(folder) : nullptr);
  const auto change = run.change;
  run.change = [&](int rank, TrainerOptions& options) {
    options.checkpoints = stores[static_cast<std::size_t>(rank)].get();
    if (change) change(rank, options);
  };
  std::vector<RankRun> all = run_ranks(run);
  // Nothing is left to tidy up for stores that go away, as they do not where a rank is killed.
  for (const std::string& name : names_in(folder)) CHECK_FALSE(name.ends_with(".partial"));
  return all;
}

// A disk that fails a rank from the n-th part on.
struct FailingParts final : CheckpointStore {
  FailingParts(const std::string& path, int at) : folder(path), fail_at(at) {}
  void save_part(const std::string& place, CheckpointState which, const CheckpointPart& part,
                 const StateDict& optimizer) override {
    folder.save_part(place, which, part, optimizer);
    if (++parts >= fail_at) fail(error_id::file_write, "test", "disk", "full", "room");
  }
  void save(std::uint64_t, const Checkpoint&) override {}
  bool load_latest(Context&, Checkpoint&) override { return false; }
  void save_best(const Checkpoint&) override {}
  bool load_best(Context&, Checkpoint&) override { return false; }
  CheckpointPartFolder folder;
  int fail_at, parts = 0;
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("written by so many ranks and resumed by others", "[unit]") {
  for (const Precision& precision :
       {Precision::fp32(), Precision::bf16_sr(), Precision::fp8_delayed()}) {
    const ParallelRun run = run_of(precision);
    const RankRun one = run_ranks(run).front();
    const std::pair<Way, Way> all[] = {
        {{4, true}, {2, true}},  {{2, true}, {8, true}},  {{8, true}, {0, false}},
        {{2, true}, {4, false}}, {{4, false}, {2, true}}, {{0, false}, {4, true}},
        {{1, true}, {2, true}},  {{8, true}, {1, true}},
    };
    std::uint64_t states = 0;
    for (const auto& [before, after] : all) {
      INFO(precision.name << " from " << before.ranks << " to " << after.ranks << " ranks, sharded "
                          << before.sharded << ", then " << after.sharded);
      const TemporaryFolder folder;
      ParallelRun first = run;
      first.stop_after = 4;
      for (const RankRun& rank : run_in(folder.path(), first, before)) {
        REQUIRE(rank.error == "");
        CHECK(rank.report.steps == 4);
      }
      CHECK(names_in(folder.path()) == std::vector<std::string>{"lock", "step-0000000004"});
      const bool parts = before.sharded && before.ranks > 1;
      std::size_t files = 0;
      for (const std::string& name : names_in(folder / "step-0000000004"))
        files += name.starts_with("optimizer");
      CHECK(files == (parts ? static_cast<std::size_t>(before.ranks) : 1));
      {
        auto context = make_context({.threads = 1});
        const Checkpoint checkpoint = load_checkpoint(context, folder / "step-0000000004");
        const std::uint64_t hash = state_hash(checkpoint.optimizer);
        if (states == 0) states = hash;
        CHECK(hash == states);
      }
      ParallelRun second = run;
      second.model_seed = 99;
      second.options.resume = true;
      for (const RankRun& rank : run_in(folder.path(), second, after)) {
        REQUIRE(rank.error == "");
        CHECK(rank.report.first_step == 4);
        CHECK(rank.bits == one.bits);
      }
    }
  }
}

TEST_CASE("ranks without one place for their parts end before the first step", "[unit]") {
  const TemporaryFolder folder, elsewhere;
  CheckpointPartFolder lost(elsewhere.path());
  ParallelRun run = run_of();
  const auto check = [&](std::string_view everywhere, int rank, std::string_view own) {
    const std::vector<RankRun> all = run_in(folder.path(), run, {4, true});
    for (std::size_t i = 0; i < all.size(); ++i) {
      INFO("rank " << i << ": " << all[i].error);
      CHECK(all[i].steps.empty());
      CHECK(has(all[i].error, i == static_cast<std::size_t>(rank) ? own : everywhere));
    }
    CHECK(names_in(folder.path()) == std::vector<std::string>{"lock"});
    CHECK(names_in(elsewhere.path()).empty());
  };
  run.change = [](int rank, TrainerOptions& options) {
    if (rank == 2) options.checkpoints = nullptr;
  };
  const char* const differ =
      "\"checkpoints\" of rank 2 is \"none\", wanted \"a store\" as on rank 0";
  check(differ, 2, differ);
  run.change = [&](int rank, TrainerOptions& options) {
    if (rank == 1) options.checkpoints = &lost;
  };
  check("[parallel.rank_lost]", 1, "wanted the folder that rank 0 has made");
  FailingParts full(folder.path(), 1);
  run.change = [&](int rank, TrainerOptions& options) {
    if (rank == 3) options.checkpoints = &full;
  };
  check("disk is full", 3, "[file.write]");
  run.change = [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.checkpoints = &full;  // which takes no parts from others
  };
  check("[checkpoint.parts]", 0, "a store that takes whole states only");
}

TEST_CASE("a part that cannot be written ends all ranks and leaves the checkpoint before",
          "[unit]") {
  const TemporaryFolder folder;
  ParallelRun run = run_of();
  const RankRun one = run_ranks(run).front();
  run.options.checkpoint_every = 2;
  // The first part is the trial at the start, the second that of step 2.
  FailingParts full(folder.path(), 3), also_full(folder.path(), 3);
  run.change = [&](int rank, TrainerOptions& options) {
    if (rank == 2) options.checkpoints = &full;
    if (rank == 3) options.checkpoints = &also_full;
  };
  const std::vector<RankRun> all = run_in(folder.path(), run, {4, true});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    INFO("rank " << rank << ": " << all[rank].error);
    CHECK(has(all[rank].error, "disk is full"));
    CHECK(has(all[rank].error, rank >= 2 ? "[file.write]" : "[parallel.rank_lost]"));
  }
  CHECK(names_in(folder.path()) == std::vector<std::string>{"lock", "step-0000000002"});
  run.options.resume = true;
  run.change = {};
  for (const RankRun& rank : run_in(folder.path(), run, {2, true})) {
    REQUIRE(rank.error == "");
    CHECK(rank.report.first_step == 2);
    CHECK(rank.bits == one.bits);
  }
}
