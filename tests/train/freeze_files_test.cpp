// A training with frozen layers: the same bits over ranks, stages, sharded moments and a break, and
// a checkpoint that is resumed with the same frozen parameters only.

#include <soma/nn.hpp>
#include <soma/parallel/in_process.hpp>
#include <soma/pipeline.hpp>
#include <soma/soma.hpp>
#include <soma/train.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/small_run.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

struct Way {
  int ranks = 1;
  std::size_t stages = 1;
  bool shard = false;
};

struct Outcome {
  std::uint64_t bits = 0;
  bool frozen_stayed = true, others_moved = true;
};

Outcome train_one(const Way& way, int rank, Communicator* communicator, CheckpointStore* store,
                  std::uint64_t stop_after, bool resume, const std::string& lower) {
  auto context = make_context({.threads = 1});
  SmallModel made(context);
  const Parameters& parameters = made.task.parameters();
  nn::freeze(parameters, "*embeddings.*");
  nn::freeze(parameters, "*" + lower + "*");
  std::vector<std::uint64_t> before;
  for (const Parameter& parameter : parameters) before.push_back(bits_of(context, {parameter}));
  data::TokenSource source(context, token_lists(40), {.batch_sequences = 8, .seed = 3});
  train::TrainerOptions options{.epochs = 2,
                                .learning_rate = 1e-3,
                                .seed = 5,
                                .checkpoints = store,
                                .resume = resume,
                                .communicator = communicator,
                                .shard_optimizer = way.shard};
  options.pipeline.partitions = way.stages;
  std::optional<train::PipelineTrainer> pipeline;
  std::optional<train::TrainerBase> plain;
  if (way.stages > 1)
    pipeline.emplace(context, made.task, options);
  else
    plain.emplace(context, made.task, options);
  train::TrainerBase& trainer = pipeline ? *pipeline : *plain;
  Follower follower(rank == 0 ? stop_after : 0);
  trainer.add(follower);
  trainer.fit(source, nullptr, &follower.stop);
  if (pipeline) pipeline->gather(true);
  Outcome outcome{.bits = bits_of(context, parameters)};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool same = bits_of(context, {parameters[i]}) == before[i];
    if (parameters[i].var.frozen())
      outcome.frozen_stayed = outcome.frozen_stayed && same;
    else if (parameters[i].name.find("key.bias") == std::string::npos)  // moved by rounding alone
      outcome.others_moved = outcome.others_moved && !same;
  }
  return outcome;
}

constexpr const char* first_layer = "layer.0.";

Outcome train_all(const Way& way) {
  const std::size_t all = static_cast<std::size_t>(way.ranks) * way.stages;
  if (all == 1) return train_one(way, 0, nullptr, nullptr, 0, false, first_layer);
  InProcessGroup group(static_cast<int>(all));
  std::vector<Outcome> outcomes(all);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < all; ++rank)
    threads.emplace_back([&, rank] {
      InProcessCommunicator communicator(group, static_cast<int>(rank));
      communicator.set_time_limit(20);
      outcomes[rank] =
          train_one(way, static_cast<int>(rank), &communicator, nullptr, 0, false, first_layer);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& other : outcomes) CHECK(other.bits == outcomes[0].bits);
  return outcomes[0];
}

}  // namespace

TEST_CASE("frozen layers stay, and the others learn the same in every way to run", "[unit]") {
  const Outcome one = train_all({});
  CHECK(one.frozen_stayed);
  CHECK(one.others_moved);
  for (const Way& way : {Way{.ranks = 2}, Way{.ranks = 4}, Way{.ranks = 2, .shard = true},
                         Way{.stages = 2}, Way{.stages = 4}, Way{.ranks = 2, .stages = 2}}) {
    INFO(way.ranks << " ranks, " << way.stages << " stages, shard " << way.shard);
    const Outcome other = train_all(way);
    CHECK(other.bits == one.bits);
    CHECK(other.frozen_stayed);
  }
}

TEST_CASE("a checkpoint is resumed with the same frozen parameters only", "[unit]") {
  auto memory = make_context({.threads = 1});
  const std::uint64_t whole = train_all({}).bits;
  MemoryStore store(memory);
  train_one({}, 0, nullptr, &store, 4, false, first_layer);
  CHECK(message_of([&] {
          train_one({}, 0, nullptr, &store, 0, true, "layer.1.");
        }).find("frozen") != std::string::npos);
  CHECK(train_one({}, 0, nullptr, &store, 0, true, first_layer).bits == whole);
}
