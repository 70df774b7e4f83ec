// Runs of the small model on several ranks, which are threads.
#pragma once

#include <soma/parallel/in_process.hpp>

#include "train/small_run.hpp"

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace soma_test {

// The results of a run, rank by rank.
struct RankRun {
  std::uint64_t bits = 0;
  std::vector<soma::train::StepInfo> steps{};
  soma::train::Report report{};
  std::string error{};
  std::size_t bytes = 0;  // the context's bytes after the last step: weights, gradients, moments
  std::size_t peak_bytes = 0;
  std::size_t parameters = 0;  // numbers in them
};

struct ParallelRun {
  soma::train::TrainerOptions options{};
  int ranks = 0;                   // 0: without a communicator
  std::vector<int> threads = {1};  // the ranks take these in turns
  std::size_t batch = 16, sequences = 80, shards = 8;
  bool recompute = false;
  bool repeat = false;  // each epoch like the first: the same order, no dropout
  bool evaluate = false;
  std::vector<float> class_weights{};
  std::uint64_t stop_after = 0;
  std::uint64_t model_seed = 7;
  soma::CheckpointStore* store = nullptr;  // rank 0's store, or all ranks' where they share moments
  // Changes what a rank is given.
  std::function<void(int rank, soma::train::TrainerOptions&)> change{};
  std::function<void(int rank, const soma::train::StepInfo&)> on_step{};
};

struct StepHook final : soma::train::Callback {
  StepHook(soma::Context& memory, int own, const ParallelRun& run)
      : context(memory), rank(own), settings(run) {}
  void on_step(const soma::train::StepInfo& step) override {
    bytes = context.heap().bytes_in_use();
    if (settings.on_step) settings.on_step(rank, step);
  }
  soma::Context& context;
  int rank;
  const ParallelRun& settings;
  std::size_t bytes = 0;
};

inline RankRun run_rank(const ParallelRun& run, int rank, soma::Communicator* communicator) {
  using namespace soma;
  auto context =
      make_context({.threads = run.threads[static_cast<std::size_t>(rank) % run.threads.size()]});
  models::BertConfig config = small_config();
  config.recompute = run.recompute;
  if (run.repeat) config.dropout = config.attention_dropout = 0;
  // Large enough for rows that ranks can share: two blocks and more (row_blocks.hpp).
  config.vocabulary = 300;
  config.inner = 256;
  // Each rank begins with other weights: those of rank 0 are to be trained.
  models::BertClassifier model(
      nn::Scope{context, run.model_seed + static_cast<std::uint64_t>(rank)}, config, 2);
  nn::ClassificationTask task(model, 2, run.class_weights);
  data::TokenSource source(
      context, token_lists(run.sequences),
      {.batch_sequences = run.batch, .shuffle = !run.repeat, .seed = 3, .shards = run.shards});
  data::TokenSource held_out(context, token_lists(50), {.batch_sequences = 8, .shuffle = false});
  train::TrainerOptions options = run.options;
  options.communicator = communicator;
  if (rank == 0 || options.shard_optimizer) options.checkpoints = run.store;
  if (run.change) run.change(rank, options);
  train::Trainer trainer(context, task, options);
  // One rank asks to stop, all of them do.
  Follower follower(rank == 0 ? run.stop_after : 0);
  StepHook hook(context, rank, run);
  trainer.add(follower);
  trainer.add(hook);
  RankRun result;
  result.report = trainer.fit(source, run.evaluate ? &held_out : nullptr, &follower.stop);
  result.bits = bits_of(context, task.parameters());
  result.steps = follower.steps;
  result.bytes = hook.bytes;
  result.peak_bytes = context.memory_use().peak_bytes;
  for (const Parameter& parameter : task.parameters())
    result.parameters += parameter.value().elements();
  return result;
}

inline std::vector<RankRun> run_ranks(const ParallelRun& run) {
  if (run.ranks == 0) return {run_rank(run, 0, nullptr)};
  soma::InProcessGroup group(run.ranks);
  std::vector<RankRun> results(static_cast<std::size_t>(run.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < run.ranks; ++rank)
    threads.emplace_back([&, rank] {
      RankRun& result = results[static_cast<std::size_t>(rank)];
      try {
        soma::InProcessCommunicator communicator(group, rank);
        communicator.set_time_limit(60);
        result = run_rank(run, rank, &communicator);
      } catch (const std::exception& error) {
        result.error = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace soma_test
