// Ranks whose devices run graphs: those that have to be the same are compared.

#include <soma/data/bucketed_source.hpp>
#include <soma/neuroncore.hpp>
#include <soma/parallel/in_process.hpp>

#include "train/small_run.hpp"

#include "catch.hpp"

#include <array>
#include <exception>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

struct TwoRanks {
  std::array<RunMode, 2> modes{RunMode::lazy, RunMode::lazy};
  bool same_graphs = true;
  std::size_t equal = 0;  // as of token_lists()
  std::vector<std::size_t> buckets{};
};

// The end of each of two ranks: an error's message, or "no error".
std::array<std::string, 2> train_two(const TwoRanks& run) {
  InProcessGroup group(2);
  std::array<std::string, 2> ends{"no error", "no error"};
  const auto train_rank = [&](int rank) {
    try {
      InProcessCommunicator communicator(group, rank);
      communicator.set_time_limit(60);
      auto context = make_context({.threads = 1});
      auto core = neuroncore::make_core(context);
      auto device =
          neuroncore::make_device(core, {.mode = run.modes[static_cast<std::size_t>(rank)]});
      context.set_device(&device);
      SmallModel small(context);
      data::TokenSource source(context, token_lists(64, run.equal),
                               {.batch_sequences = 8, .shuffle = true, .seed = 3});
      const std::vector<std::size_t> buckets =
          run.buckets.empty() ? std::vector<std::size_t>{16} : run.buckets;
      data::BucketedSource bucketed(context, source, buckets);
      train::TrainerOptions options{.max_steps = 3, .learning_rate = 2e-3, .seed = 5};
      options.communicator = &communicator;
      options.same_graphs = run.same_graphs;
      train::Trainer trainer(context, small.task, options);
      if (run.buckets.empty())
        trainer.fit(source);
      else
        trainer.fit(bucketed);
      context.set_device(nullptr);
    } catch (const std::exception& error) {
      ends[static_cast<std::size_t>(rank)] = error.what();
    }
  };
  std::thread other(train_rank, 1);
  train_rank(0);
  other.join();
  return ends;
}

}  // namespace

TEST_CASE("ranks that run different graphs end with what differs", "[unit]") {
  // Parts of one number of sequences of one length are the same graph.
  for (const std::string& end : train_two({.equal = 9})) CHECK(end == "no error");
  for (const std::string& end : train_two({.buckets = {16}})) CHECK(end == "no error");
  // Ragged parts are not, which is no mistake unless somebody counts on it.
  for (const std::string& end : train_two({.same_graphs = false})) CHECK(end == "no error");
  for (const std::string& end : train_two({})) {
    CHECK_THAT(end, contains("graphs of this step: \"graph 1 call 1\" of rank 1 is \"embedding "
                             "[24, 32] fp32, [") &&
                        contains(" as on rank 0 [parallel.mismatch]"));
  }
  for (const std::string& end : train_two({.modes = {RunMode::lazy, RunMode::eager}, .equal = 9}))
    CHECK_THAT(end, contains("\"graph 1 call 1\" of rank 1 is missing, wanted ") &&
                        contains("[parallel.mismatch]"));
}
