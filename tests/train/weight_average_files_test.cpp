// The average of weights on ranks and stages: the bits of one process, in the files of all ways to
// share a training, and resumed by another.

#include <soma/io/checkpoint_folder.hpp>
#include <soma/io/checkpoint_part_folder.hpp>
#include <soma/io/state_hash.hpp>

#include "io/samples.hpp"
#include "train/pipeline/pipeline_run.hpp"

#include "catch.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

struct Way {
  std::size_t partitions = 0;  // 0: one process
  int replicas = 1;
  bool sharded = false;
};

std::vector<PipelineResult> run_in(const std::string& folder, const Way& way,
                                   std::uint64_t stop_after, bool resume) {
  PipelineRun run{.options = {.epochs = 2,
                              .learning_rate = 2e-3,
                              .seed = 5,
                              .average = train::AverageOptions{.decay = 0.8, .from = 1, .every = 2},
                              .evaluate_every = 2,
                              .keep_best = true,
                              .resume = resume,
                              .shard_optimizer = way.sharded}};
  run.plain = way.partitions == 0;
  run.replicas = way.replicas;
  run.options.pipeline.partitions = run.plain ? 1 : way.partitions;
  if (way.partitions == 2) run.options.pipeline.cuts = {"layer.1"};
  run.evaluate = true;
  run.stop_after = stop_after;
  if (resume) run.model_seed = 99;
  std::vector<std::unique_ptr<CheckpointStore>> stores;
  stores.push_back(std::make_unique<CheckpointFolder>(folder));
  for (int rank = 1; rank < run.ranks(); ++rank)
    stores.push_back(std::make_unique<CheckpointPartFolder>(folder));
  run.change = [&](int rank, train::TrainerOptions& options) {
    options.checkpoints = stores[static_cast<std::size_t>(rank)].get();
  };
  return run_pipeline(run);
}

}  // namespace

TEST_CASE("an average has the same bits on ranks and stages, saved and resumed", "[unit]") {
  const TemporaryFolder alone;
  const std::vector<PipelineResult> one = run_in(alone.path(), {}, 0, false);
  REQUIRE(one.front().error == "");
  const Way ways[] = {{}, {1, 2}, {1, 4, true}, {2, 1}, {2, 2}, {2, 2, true}};
  std::uint64_t states = 0;
  for (std::size_t i = 0; i < std::size(ways); ++i) {
    const Way &before = ways[i], &after = ways[(i + 3) % std::size(ways)];
    INFO(before.partitions << " stages, " << before.replicas << " replicas, sharded "
                           << before.sharded << "; then " << after.partitions << " and "
                           << after.replicas);
    const TemporaryFolder folder;
    for (const PipelineResult& rank : run_in(folder.path(), before, 3, false))
      REQUIRE(rank.error == "");
    {
      auto context = make_context({.threads = 1});
      const Checkpoint checkpoint = load_checkpoint(context, folder / "step-0000000003");
      std::size_t averages = 0;
      for (const auto& [name, tensor] : checkpoint.optimizer)
        averages += name.ends_with(".average");
      CHECK(averages == checkpoint.weights.size());
      const std::uint64_t hash = state_hash(checkpoint.optimizer);
      if (states == 0) states = hash;
      CHECK(hash == states);
    }
    for (const PipelineResult& rank : run_in(folder.path(), after, 0, true)) {
      REQUIRE(rank.error == "");
      CHECK(rank.report.first_step == 3);
      CHECK(rank.bits == one.front().bits);
      CHECK(rank.report.evaluation_loss == one.front().report.evaluation_loss);
    }
  }
}
