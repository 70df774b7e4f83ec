// Pipelines of stages end with the bits of one process.

#include "train/pipeline_run.hpp"

#include "catch.hpp"

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;
using train::Optimize;
using train::Pipeline;

namespace {

PipelineRun run_of(std::size_t partitions, std::size_t microbatches,
                   const Precision& precision = {}) {
  PipelineRun run{
      .options = {.epochs = 1, .learning_rate = 2e-3, .seed = 5, .precision = precision}};
  run.options.pipeline.partitions = partitions;
  run.options.pipeline.microbatches = microbatches;
  // By hand, so that times decide nothing here.
  if (partitions == 2) run.options.pipeline.cuts = {"layer.1"};
  if (partitions == 3) run.options.pipeline.cuts = {"layer.1", "head"};
  return run;
}

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

void check_same(const std::vector<PipelineResult>& ranks, const PipelineResult& one) {
  REQUIRE(one.error.empty());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    INFO("rank " << rank);
    REQUIRE(ranks[rank].error == "");
    CHECK(ranks[rank].bits == one.bits);
    REQUIRE(ranks[rank].steps.size() == one.steps.size());
    for (std::size_t i = 0; i < one.steps.size(); ++i) {
      const train::StepInfo &mine = ranks[rank].steps[i], &wanted = one.steps[i];
      INFO("step " << i);
      CHECK(bits(mine.loss) == bits(wanted.loss));
      CHECK(bits(mine.gradient_norm) == bits(wanted.gradient_norm));
      CHECK(mine.correct == wanted.correct);
      CHECK(mine.classified == wanted.classified);
      CHECK(mine.tokens == wanted.tokens);
      CHECK(mine.skipped == wanted.skipped);
    }
  }
}

}  // namespace

TEST_CASE("any stages, micro-batches, replicas and schedule: the bits of one process", "[unit]") {
  const PipelineResult one = run_alone(run_of(1, 1));
  for (const std::size_t partitions : {1u, 2u, 3u})
    for (const std::size_t microbatches : {1u, 2u, 4u, 8u})
      for (const int replicas : {1, 2, 4}) {
        if (microbatches * static_cast<std::size_t>(replicas) > 8) continue;
        for (const int way : {0, 1, 2}) {
          if (partitions == 1 && way != 0) continue;
          INFO(partitions << " partitions, " << microbatches << " micro-batches, " << replicas
                          << " replicas, schedule " << way);
          PipelineRun run = run_of(partitions, microbatches);
          run.replicas = replicas;
          run.options.pipeline.schedule = way == 0 ? Pipeline::simple : Pipeline::interleaved;
          run.options.pipeline.optimize = way == 1 ? Optimize::memory : Optimize::speed;
          run.options.pipeline.placement = way == 1 ? Placement::spread : Placement::cluster;
          check_same(run_pipeline(run), one);
        }
      }
}
