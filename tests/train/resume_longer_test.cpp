// These tests check resuming with other settings: a longer run, which is allowed, and others, which
// are named.

#include <soma/soma.hpp>
#include <soma/train/trainer.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/small_run.hpp"
#include "train/trainer_run.hpp"

#include <cstdint>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;
using train::Trainer;
using train::TrainerOptions;

namespace {

struct Lengths {
  std::uint64_t epochs = 3, max_steps = 0;
};

// Trains for each of the lengths in turn, going on from the checkpoint before.
std::uint64_t train_for(const std::vector<Lengths>& lengths, TrainerOptions options,
                        LogSink log = {}) {
  auto context = make_context({.log = log});
  MemoryStore store(context);
  options.checkpoints = &store;
  std::uint64_t bits = 0;
  for (const Lengths& length : lengths) {
    SmallModel small(context, options.resume ? 99 : 7);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(48), {.batch_sequences = 16, .shuffle = false});
    options.epochs = length.epochs;
    options.max_steps = length.max_steps;
    Trainer(context, small.task, options).fit(source, &held_out);
    bits = bits_of(context, small.task.parameters());
    options.resume = true;
  }
  return bits;
}

}  // namespace

TEST_CASE("a run that is resumed for longer has the weights of one that was that long", "[unit]") {
  for (const optim::Schedule& schedule :
       {optim::Schedule{}, optim::Schedule{.warmup = 12},
        optim::Schedule{.decay = optim::Decay::step, .every = 7, .factor = 0.5},
        optim::Schedule{.decay = optim::Decay::exponential, .factor = 0.95},
        optim::Schedule{.decay = optim::Decay::plateau, .factor = 0.5, .patience = 1}}) {
    INFO("decay " << static_cast<int>(schedule.decay) << ", warm-up " << schedule.warmup);
    TrainerOptions options{.learning_rate = 2e-3, .schedule = schedule, .seed = 5};
    const std::uint64_t whole = train_for({{.epochs = 4}}, options);
    CHECK(train_for({{.epochs = 1}, {.epochs = 4}}, options) == whole);
    CHECK(train_for({{.epochs = 1}, {.epochs = 2}, {.epochs = 3}, {.epochs = 4}}, options) ==
          whole);
    // Within an epoch of ten steps.
    CHECK(train_for({{.epochs = 0, .max_steps = 13}, {.epochs = 4}}, options) == whole);
    CHECK(train_for({{.epochs = 4, .max_steps = 20}, {.epochs = 4, .max_steps = 29}, {.epochs = 4}},
                    options) == whole);
  }
}

TEST_CASE("a schedule that depends on the length says what a longer run changes", "[unit]") {
  std::vector<std::string> lines;
  const LogSink log{&lines, [](void* self, LogLevel, std::string_view line) {
                      static_cast<std::vector<std::string>*>(self)->emplace_back(line);
                    }};
  TrainerOptions options{.learning_rate = 2e-3, .seed = 5};
  train_for({{.epochs = 1}, {.epochs = 2}}, options, log);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] ==
        "Trainer: resumed for 20 steps, planned were 10: the schedule ends elsewhere, so the "
        "learning rate of step 11 is 0.001 instead of 0.0");
  lines.clear();
  train_for({{.epochs = 1}, {.epochs = 1}}, options, log);
  options.schedule.decay = optim::Decay::constant;
  train_for({{.epochs = 1}, {.epochs = 2}}, options, log);
  CHECK(lines.empty());
}

TEST_CASE("what differs from the checkpoint's run is named, with both values", "[unit]") {
  auto context = make_context();
  MemoryStore store(context);
  TrainerOptions options{.max_steps = 2, .learning_rate = 2e-3, .seed = 5, .checkpoints = &store};
  {
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    Trainer(context, small.task, options).fit(source);
  }
  options.resume = true;
  const auto resumed = [&](const TrainerOptions& changed, std::size_t rows,
                           const data::BatchOptions& batches) {
    SmallModel small(context);
    data::TokenSource source(context, token_lists(rows), batches);
    return message_of([&] { Trainer(context, small.task, changed).fit(source); });
  };
  TrainerOptions other = options;
  other.seed = 6;
  data::BatchOptions batches = batching();
  batches.batch_sequences = 8;
  CHECK(resumed(other, 160, batches) ==
        "check_identity: \"data.batch_sequences\", \"seed\", \"optimizer.seed\" is 8, 6, 6, wanted "
        "16, 5, 5, as the checkpoint has it [checkpoint.identity]");
  batches = batching();
  batches.seed = 4;
  CHECK(resumed(options, 160, batches).find("\"data.seed\" is 4, wanted 3,") != std::string::npos);
  CHECK(resumed(options, 161, batching()).find("\"data.content\" is \"161 sequences, ") !=
        std::string::npos);
  CHECK(resumed(options, 160, batching()) == "no error");
}
