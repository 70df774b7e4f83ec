// A model with batch norm on several ranks: the statistics are the whole batch's, with the bits of
// one process.

#include <soma/parallel/in_process.hpp>

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
  std::uint64_t bits = 0;  // a hash of all parameters, running statistics among them
  double loss = 0;         // the loss of an evaluation
  std::string error{};
};

Result train_rank(Communicator* communicator, int threads, std::size_t accumulate) {
  auto context = make_context({.threads = threads});
  const nn::Sequential model = batch_norm_model(nn::Scope{context, 11});
  nn::ClassificationTask task(model, 3);
  const LabelledImages data(context);
  // The last batch is short: some shards, and some ranks, have no image.
  data::ArraySource source(context, data.images, data.classes, {.batch_sequences = 20, .seed = 3});
  data::ArraySource validation(context, data.images, data.classes,
                               {.batch_sequences = 9, .shuffle = false});
  train::Trainer trainer(context, task,
                         {.epochs = 2,
                          .accumulate = accumulate,
                          .learning_rate = 1e-2,
                          .seed = 5,
                          .communicator = communicator});
  const train::Report report = trainer.fit(source, &validation);
  return {bits_of(context, task.parameters()), report.evaluation_loss, {}};
}

}  // namespace

TEST_CASE("batch norm on ranks has the bits of one process", "[unit]") {
  for (const std::size_t accumulate : {1u, 2u}) {
    const Result one = train_rank(nullptr, 1, accumulate);
    CHECK(train_rank(nullptr, 3, accumulate).bits == one.bits);
    for (const int ranks : {2, 8}) {
      INFO(ranks << " ranks, " << accumulate << " batches a step");
      InProcessGroup group(ranks);
      std::vector<Result> results(static_cast<std::size_t>(ranks));
      std::vector<std::thread> threads;
      for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
          Result& result = results[static_cast<std::size_t>(rank)];
          try {
            InProcessCommunicator communicator(group, rank);
            communicator.set_time_limit(60);
            result = train_rank(&communicator, 1 + rank % 2, accumulate);
          } catch (const std::exception& error) {
            result.error = error.what();
          }
        });
      for (std::thread& thread : threads) thread.join();
      for (const Result& result : results) {
        CHECK(result.error == "");
        CHECK(result.bits == one.bits);
        CHECK(result.loss == one.loss);
      }
    }
  }
}
