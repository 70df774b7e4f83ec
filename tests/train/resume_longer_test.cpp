// These tests check resuming with other settings: a longer run, which is allowed, and others, which
// are named.

#include <soma/soma.hpp>
#include <soma/train/trainer.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/small_run.hpp"
#include "train/trainer_run.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;
using train::Trainer;
using train::TrainerOptions;

namespace {

struct Lengths {
  std::uint64_t epochs = 3, max_steps = 0;
  std::uint64_t warmup = 0;  // in place of the schedule's
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
    if (length.warmup != 0) options.schedule.warmup = length.warmup;
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

TEST_CASE("a warm-up by the length of the run is that of the first run", "[unit]") {
  TrainerOptions options{
      .learning_rate = 2e-3, .schedule = {.decay = optim::Decay::constant, .warmup = 5}, .seed = 5};
  const std::uint64_t whole = train_for({{.epochs = 4}}, options);
  const std::vector<Lengths> lengths{{.epochs = 1, .warmup = 5}, {.epochs = 4, .warmup = 20}};
  CHECK(message_of([&] {
          train_for(lengths, options);
        }).find("\"schedule.warmup\" is 20, wanted 5, as the checkpoint has it") !=
        std::string::npos);
  options.keep_warmup = true;
  CHECK(train_for(lengths, options) == whole);
  options.schedule.decay = optim::Decay::linear;
  CHECK(message_of([&] { train_for(lengths, options); }) == "no error");
  CHECK(message_of([&] {
          train_for({{.epochs = 3, .warmup = 15}, {.epochs = 1, .warmup = 5}}, options);
        }) == "Schedule: steps is 10, wanted more than the warm-up, 15 [operator.value]");
}

TEST_CASE("validation rows are part of a run that they decide", "[unit]") {
  const TrainerOptions plain{.max_steps = 20, .learning_rate = 2e-3, .seed = 5};
  const auto resumed = [](TrainerOptions first, TrainerOptions second, std::size_t rows) {
    auto context = make_context();
    MemoryStore store(context);
    const auto fit = [&](TrainerOptions options, std::size_t count) {
      options.checkpoints = &store;
      SmallModel small(context);
      data::TokenSource source(context, token_lists(160), batching());
      std::optional<data::TokenSource> validation;
      if (count != 0)
        validation.emplace(context, token_lists(count), data::BatchOptions{.batch_sequences = 16});
      Trainer(context, small.task, options).fit(source, validation ? &*validation : nullptr);
    };
    fit(first, 48);
    second.resume = true;
    second.max_steps = 40;
    second.epochs = 4;
    return message_of([&] { fit(second, rows); });
  };
  TrainerOptions best = plain, patient = plain, plateau = plain;
  best.keep_best = true;
  patient.patience = 9;
  plateau.schedule = {.decay = optim::Decay::plateau};
  for (const TrainerOptions& options : {best, patient, plateau}) {
    CHECK(resumed(options, options, 48) == "no error");
    const std::string message = resumed(options, options, 49);
    CHECK(message.find("\"validation.content\" is \"49 sequences, ") != std::string::npos);
    CHECK(message.find("wanted \"48 sequences, ") != std::string::npos);
  }
  CHECK(resumed(best, best, 0).find("\"validation.content\" is \"none\", wanted \"48 ") !=
        std::string::npos);
  // Evaluations that decide nothing may be of other rows; the best of them is no measure then.
  CHECK(resumed(plain, plain, 49) == "no error");
  CHECK(resumed(best, plain, 49) == "no error");
  CHECK(resumed(plain, best, 49).find("validation.content") != std::string::npos);
}

TEST_CASE("the best evaluation of other validation rows is no measure", "[unit]") {
  struct Best final : train::Callback {
    void on_evaluation(const train::EvaluationInfo& info) override { found.push_back(info.best); }
    std::vector<bool> found;
  };
  auto context = make_context();
  MemoryStore store(context);
  TrainerOptions options{.epochs = 4, .learning_rate = 2e-3, .seed = 5, .checkpoints = &store};
  Best best;
  for (const bool second : {false, true}) {
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    // With the labels turned round the loss is higher than any before.
    data::TokenLists lists = token_lists(48);
    if (second)
      for (std::int64_t& label : lists.labels) label = 1 - label;
    data::TokenSource validation(context, lists, {.batch_sequences = 16});
    Trainer trainer(context, small.task, options);
    if (second) trainer.add(best);
    trainer.fit(source, &validation);
    options.resume = true;
    options.epochs = 5;
  }
  CHECK(best.found == std::vector{true});
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
