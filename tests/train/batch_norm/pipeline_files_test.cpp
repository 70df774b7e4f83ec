// A model with batch norm as a pipeline: replicas share its statistics, planning leaves them as
// they are, and several micro-batches are refused.

#include <soma/parallel/in_process.hpp>
#include <soma/pipeline.hpp>

#include "catch.hpp"
#include "train/batch_norm/images.hpp"
#include "train/small_run.hpp"

#include <cstdint>
#include <exception>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

struct Result {
  std::uint64_t bits = 0;
  std::string error{}, id{};
};

Result train_rank(Communicator* communicator, std::size_t microbatches) {
  auto context = make_context({.threads = 1});
  const nn::Sequential model = batch_norm_model(nn::Scope{context, 11});
  nn::ClassificationTask task(model, 3);
  const LabelledImages data(context);
  data::ArraySource source(context, data.images, data.classes, {.batch_sequences = 20, .seed = 3});
  train::TrainerOptions options{.learning_rate = 1e-2, .seed = 5, .communicator = communicator};
  if (communicator == nullptr) {
    train::Trainer(context, task, options).fit(source);
    return {bits_of(context, task.parameters()), {}, {}};
  }
  options.pipeline.partitions = 2;
  options.pipeline.microbatches = microbatches;
  train::PipelineTrainer trainer(context, task, options);
  trainer.fit(source);
  trainer.gather(true);
  return {bits_of(context, task.parameters()), {}, {}};
}

std::vector<Result> train_ranks(int ranks, std::size_t microbatches) {
  InProcessGroup group(ranks);
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Result& result = results[static_cast<std::size_t>(rank)];
      try {
        InProcessCommunicator communicator(group, rank);
        communicator.set_time_limit(60);
        result = train_rank(&communicator, microbatches);
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

}  // namespace

TEST_CASE("batch norm in a pipeline has the bits of one process", "[unit]") {
  const Result one = train_rank(nullptr, 1);
  for (const int ranks : {2, 4})
    for (const Result& result : train_ranks(ranks, 1)) {
      CHECK(result.error == "");
      CHECK(result.bits == one.bits);
    }
  std::size_t refused = 0;
  for (const Result& result : train_ranks(2, 2)) {
    refused += result.id == "train.options" ? 1u : 0u;
    CHECK((result.id == "train.options" || result.id == "parallel.rank_lost"));
  }
  CHECK(refused > 0);
}
