// These tests train with optimizers other than AdamW, a test's own among them: over threads and
// ranks, with shared states, interrupted and resumed.

#include <soma/optim/adadelta.hpp>
#include <soma/optim/adafactor.hpp>
#include <soma/optim/adam.hpp>
#include <soma/optim/lamb.hpp>
#include <soma/optim/radam.hpp>
#include <soma/optim/rmsprop.hpp>
#include <soma/optim/sgd.hpp>
#include <soma/soma.hpp>
#include <soma/train/trainer.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/parallel_run.hpp"
#include "train/small_run.hpp"
#include "train/trainer_run.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;
using train::Trainer;
using train::TrainerOptions;

namespace {

// Steps against the sign of the gradient, with the number of steps as its only state.
class SignDescent final : public optim::Optimizer {
 public:
  SignDescent(Context& context, const Parameters& parameters)
      : Optimizer(context, {{.parameters = parameters}}, {}) {}
  void step(const optim::Step& step) override {
    for (optim::detail::Slot& slot : slots_) {
      const Gradient gradient = slot.parameter.gradient();
      if (!gradient.defined()) continue;
      const Tensor dense = context_.built_in().to_dense(
          context_, gradient, slot.rows_of(slot.parameter.value()).shape());
      const Tensor weight = slot.rows_of(slot.parameter.value());
      float* w = weight.mutable_data<float>();
      const float* g = dense.data<float>();
      for (std::size_t i = 0; i < weight.elements(); ++i)
        w[i] -= static_cast<float>(step.rate) * (g[i] > 0 ? 1.0f : g[i] < 0 ? -1.0f : 0.0f);
      ++slot.steps;
    }
  }
  void describe(Record& record) const override { record.set("optimizer", "sign"); }
  bool steps_rows_alone() const override { return true; }
};

enum class Kind { sgd, momentum, lamb, own, adam, rmsprop, adagrad, adafactor, adadelta, radam };

bool steps_whole(Kind kind) { return kind == Kind::lamb || kind == Kind::adafactor; }

std::unique_ptr<optim::Optimizer> make(Kind kind, Context& context, const Parameters& parameters) {
  switch (kind) {
    case Kind::sgd:
      return std::make_unique<optim::Sgd>(context, parameters);
    case Kind::momentum:
      return std::make_unique<optim::Sgd>(context, parameters,
                                          optim::SgdOptions{.momentum = 0.9f, .nesterov = true});
    case Kind::lamb:
      return std::make_unique<optim::Lamb>(
          context, std::vector<optim::Group>{{.parameters = parameters, .weight_decay = 0.01f}});
    case Kind::adam:
      return std::make_unique<optim::Adam>(context, parameters, 0.01f);
    case Kind::rmsprop:
      return std::make_unique<optim::RmsProp>(context, parameters,
                                              optim::RmsPropOptions{.momentum = 0.5f});
    case Kind::adagrad:
      return std::make_unique<optim::Adagrad>(context, parameters);
    case Kind::adafactor:
      return std::make_unique<optim::Adafactor>(context, parameters);
    case Kind::adadelta:
      return std::make_unique<optim::Adadelta>(context, parameters);
    case Kind::radam:
      return std::make_unique<optim::RAdam>(context, parameters, optim::RAdamOptions{.beta2 = 0.9});
    case Kind::own:
      break;
  }
  return std::make_unique<SignDescent>(context, parameters);
}

double rate_of(Kind kind) {
  if (kind == Kind::own || kind == Kind::adam || kind == Kind::rmsprop || kind == Kind::radam)
    return 1e-3;
  return steps_whole(kind) || kind == Kind::adagrad ? 1e-2 : 0.1;
}

struct Result {
  std::uint64_t before = 0, bits = 0;  // hashes of the weights
  std::uint64_t steps = 0;
  std::string error{};
};

struct Settings {
  Kind kind = Kind::sgd;
  int ranks = 0, threads = 1;
  bool shard = false;
  std::uint64_t stop_after = 0;
  CheckpointStore* store = nullptr;
  bool resume = false;
};

Result train_rank(const Settings& settings, int rank, Communicator* communicator) {
  auto context = make_context({.threads = settings.threads});
  SmallModel small(context);
  const std::uint64_t before = bits_of(context, small.task.parameters());
  const auto optimizer = make(settings.kind, context, small.task.parameters());
  data::TokenSource source(context, token_lists(160), batching());
  TrainerOptions options{.epochs = 3,
                         .learning_rate = rate_of(settings.kind),
                         .optimizer = optimizer.get(),
                         .seed = 5,
                         .resume = settings.resume,
                         .communicator = communicator,
                         .shard_optimizer = settings.shard};
  if (rank == 0 || settings.shard) options.checkpoints = settings.store;
  Trainer trainer(context, small.task, options);
  Follower follower(rank == 0 ? settings.stop_after : 0);
  trainer.add(follower);
  const train::Report report = trainer.fit(source, nullptr, &follower.stop);
  return {before, bits_of(context, small.task.parameters()), report.steps};
}

Result train_on(const Settings& settings) {
  if (settings.ranks == 0) return train_rank(settings, 0, nullptr);
  InProcessGroup group(settings.ranks);
  std::vector<Result> results(static_cast<std::size_t>(settings.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < settings.ranks; ++rank)
    threads.emplace_back([&, rank] {
      Result& result = results[static_cast<std::size_t>(rank)];
      try {
        InProcessCommunicator communicator(group, rank);
        communicator.set_time_limit(60);
        result = train_rank(settings, rank, &communicator);
      } catch (const std::exception& error) {
        result.error = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const Result& result : results)
    if (!result.error.empty() && result.error.find("rank_lost") == std::string::npos) return result;
  return results.front();
}

}  // namespace

TEST_CASE("any optimizer trains: the same bits over threads, ranks and interruptions", "[unit]") {
  for (const Kind kind :
       {Kind::sgd, Kind::momentum, Kind::lamb, Kind::own, Kind::adam, Kind::rmsprop, Kind::adagrad,
        Kind::adafactor, Kind::adadelta, Kind::radam}) {
    INFO("optimizer " << static_cast<int>(kind));
    const Result one = train_on({.kind = kind});
    CHECK(one.error == "");
    CHECK(one.bits != one.before);
    CHECK(one.steps == 30);
    CHECK(train_on({.kind = kind, .threads = 3}).bits == one.bits);
    CHECK(train_on({.kind = kind, .ranks = 4}).bits == one.bits);
    auto context = make_context();
    for (const int ranks : {0, 2}) {
      MemoryStore store(context);
      CHECK(train_on({.kind = kind, .ranks = ranks, .stop_after = 11, .store = &store}).steps ==
            11);
      CHECK(train_on({.kind = kind, .store = &store, .resume = true}).bits == one.bits);
    }
    if (steps_whole(kind)) continue;
    CHECK(train_on({.kind = kind, .ranks = 4, .shard = true}).bits == one.bits);
    MemoryStore store(context);
    train_on({.kind = kind, .ranks = 4, .shard = true, .stop_after = 11, .store = &store});
    CHECK(train_on({.kind = kind, .ranks = 2, .store = &store, .resume = true}).bits == one.bits);
  }
}

TEST_CASE("an optimizer that needs whole parameters is not shared by ranks", "[unit]") {
  CHECK(
      train_on({.kind = Kind::lamb, .ranks = 2, .shard = true}).error ==
      "Trainer: shard_optimizer is true, with \"lamb\", wanted an optimizer that steps rows alone "
      "(Optimizer::steps_rows_alone) [train.options]");
  auto context = make_context();
  SmallModel small(context);
  optim::Lamb lamb(context, {{.parameters = small.task.parameters()}});
  const auto all = [](const Parameter&) { return std::pair(std::size_t{0}, std::size_t{1}); };
  CHECK(id_of([&] { lamb.keep_rows(all); }) == "operator.value");
}

TEST_CASE("a run is not resumed with another optimizer, and says so", "[unit]") {
  auto context = make_context();
  MemoryStore store(context);
  train_on({.kind = Kind::sgd, .stop_after = 3, .store = &store});
  CHECK(
      message_of([&] { train_on({.kind = Kind::momentum, .store = &store, .resume = true}); }) ==
      "check_identity: \"optimizer.momentum\", \"optimizer.nesterov\" is 0.8999999761581421, true, "
      "wanted 0.0, false, as the checkpoint has it [checkpoint.identity]");
}

TEST_CASE("settings of AdamW beside an optimizer of one's own are refused", "[unit]") {
  auto context = make_context();
  SmallModel small(context);
  optim::Sgd sgd(context, small.task.parameters());
  const auto refused = [&](const TrainerOptions& options) {
    return id_of([&] { Trainer(context, small.task, options); });
  };
  CHECK(refused({.optimizer = &sgd, .weight_decay = 0.01}) == "train.options");
  CHECK(refused({.optimizer = &sgd, .decay_all = true}) == "train.options");
  CHECK(refused({.optimizer = &sgd}) == "no error");
}
