// Runs of small models as pipelines whose ranks are threads.
#pragma once

#include <soma/pipeline.hpp>

#include "train/parallel_run.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace soma_test {

struct PipelineRun {
  soma::train::TrainerOptions options{};  // with a pipeline
  int replicas = 1;
  bool plain = false;  // one process without a pipeline
  std::vector<int> threads = {1};
  std::size_t batch = 16, sequences = 48, shards = 8;
  bool recompute = false, dropout = true, evaluate = false, later = false;
  std::uint64_t stop_after = 0, model_seed = 7;
  soma::CheckpointStore* store = nullptr;  // rank 0's store, or all ranks' where they write parts
  std::function<void(int rank, soma::train::TrainerOptions&)> change{};
  std::function<void(int rank, const soma::train::StepInfo&)> on_step{};
  std::function<void(int rank, soma::Context&, soma::train::PipelineTrainer&,
                     const soma::Parameters&)>
      behind_fit{};
  double time_limit = 60;

  int ranks() const { return plain ? 1 : static_cast<int>(options.pipeline.partitions) * replicas; }
};

struct PipelineResult {
  std::uint64_t bits = 0;
  std::vector<soma::train::StepInfo> steps{};
  soma::train::Report report{};
  std::string error{}, id{};
  std::size_t bytes = 0, peak_bytes = 0;  // the context's bytes after the last step, and at most
  std::size_t own_parameters = 0;         // numbers of its stage
  std::size_t save_bytes = 0;  // that saving a checkpoint took beside what a step leaves, at most
  soma::train::StageMemory memory{};  // memory of the micro-batches in the last step
  double predicted_seconds = 0, measured_seconds = 0;
};

// The heap between a step and the checkpoint behind it.
struct SaveHook final : soma::train::Callback {
  explicit SaveHook(soma::Context& memory) : heap(memory.heap()) {}
  void on_step(const soma::train::StepInfo&) override {
    heap.reset_peak();
    before = heap.bytes_in_use();
  }
  void on_checkpoint(std::uint64_t) override { most = std::max(most, heap.peak_bytes() - before); }
  soma::Heap& heap;
  std::size_t before = 0, most = 0;
};

inline soma::models::BertConfig pipeline_config(const PipelineRun& run) {
  soma::models::BertConfig config = small_config();
  config.layers = 3;
  config.recompute = run.recompute;
  if (!run.dropout) config.dropout = config.attention_dropout = 0;
  // Large enough for rows that ranks can share (row_blocks.hpp).
  config.vocabulary = 300;
  config.inner = 256;
  return config;
}

// One trainer, whatever it is, with the model and data that all runs have.
inline PipelineResult run_stage(const PipelineRun& run, int rank, soma::Communicator* ranks) {
  using namespace soma;
  auto context =
      make_context({.threads = run.threads[static_cast<std::size_t>(rank) % run.threads.size()]});
  nn::Later later;
  // Each rank begins with other weights, where they are made at once: those of rank 0 are trained.
  const std::uint64_t seed =
      run.later ? run.model_seed : run.model_seed + static_cast<std::uint64_t>(rank);
  models::BertClassifier model(nn::Scope{context, seed, "", run.later ? &later : nullptr},
                               pipeline_config(run), 2);
  nn::ClassificationTask task(model, 2);
  data::TokenSource source(context, token_lists(run.sequences),
                           {.batch_sequences = run.batch, .seed = 3, .shards = run.shards});
  data::TokenSource held_out(context, token_lists(50), {.batch_sequences = 8, .shuffle = false});
  train::TrainerOptions options = run.options;
  options.communicator = ranks;
  if (run.later) options.pipeline.later = &later;
  const bool parts = options.shard_optimizer || options.pipeline.partitions > 1;
  if (rank == 0 || parts) options.checkpoints = run.store;
  if (run.change) run.change(rank, options);
  std::optional<train::PipelineTrainer> pipeline;
  std::optional<train::TrainerBase> plain;
  if (run.plain)
    plain.emplace(context, task, (options.pipeline = {}, options));
  else
    pipeline.emplace(context, task, options);
  train::TrainerBase& trainer = run.plain ? *plain : *pipeline;
  Follower follower(rank == 0 ? run.stop_after : 0);
  ParallelRun steps;
  steps.on_step = run.on_step;
  StepHook hook(context, rank, steps);
  trainer.add(follower);
  trainer.add(hook);
  SaveHook saving(context);
  trainer.add(saving);
  PipelineResult result;
  result.report = trainer.fit(source, run.evaluate ? &held_out : nullptr, &follower.stop);
  result.bytes = hook.bytes;
  result.peak_bytes = context.memory_use().peak_bytes;
  result.save_bytes = saving.most;
  if (pipeline) {
    if (run.behind_fit) run.behind_fit(rank, context, *pipeline, task.parameters());
    for (const Parameter& parameter : pipeline->own_parameters())
      result.own_parameters += parameter.value().elements();
    result.memory = pipeline->memory();
    result.predicted_seconds = pipeline->predicted_seconds();
    result.measured_seconds = pipeline->measured_seconds();
    pipeline->gather(true);
  }
  result.bits = bits_of(context, task.parameters());
  result.steps = follower.steps;
  return result;
}

inline std::vector<PipelineResult> run_pipeline(const PipelineRun& run) {
  if (run.plain) return {run_stage(run, 0, nullptr)};
  soma::InProcessGroup group(run.ranks());
  std::vector<PipelineResult> results(static_cast<std::size_t>(run.ranks()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < run.ranks(); ++rank)
    threads.emplace_back([&, rank] {
      PipelineResult& result = results[static_cast<std::size_t>(rank)];
      try {
        soma::InProcessCommunicator communicator(group, rank);
        communicator.set_time_limit(run.time_limit);
        result = run_stage(run, rank, &communicator);
      } catch (const soma::Error& error) {
        result.error = error.what();
        result.id = std::string(error.id().name);
      } catch (const std::exception& error) {
        result.error = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

inline PipelineResult run_alone(PipelineRun run) {
  run.plain = true;
  run.later = false;
  run.store = nullptr;
  run.stop_after = 0;
  run.options.resume = false;
  run.options.shard_optimizer = false;
  return run_pipeline(run).front();
}

}  // namespace soma_test
