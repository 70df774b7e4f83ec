// These tests check what a run keeps: checkpoints that another run goes on from, and the best
// weights.

#include <soma/data/token_source.hpp>
#include <soma/models/bert.hpp>
#include <soma/soma.hpp>
#include <soma/train/trainer.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/small_run.hpp"
#include "train/trainer_run.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>

using namespace soma;
using namespace soma_test;
using train::Trainer;
using train::TrainerOptions;

namespace {

// Each sentence with the other label: what is learnt elsewhere makes it worse here.
data::TokenLists contradicting(std::size_t count) {
  data::TokenLists lists = token_lists(count);
  for (std::int64_t& label : lists.labels) label = 1 - label;
  return lists;
}

// Ends by itself, within an epoch of ten steps, where evaluations get worse.
TrainerOptions patient(bool keep_best) {
  TrainerOptions options = options_of();
  options.epochs = 40;
  options.evaluate_every = 7;
  options.patience = 2;
  options.keep_best = keep_best;
  return options;
}

// A task without classes, whose first evaluation is NaN.
class LateTask final : public nn::Task {
 public:
  explicit LateTask(nn::Task& task) : task_(task) {}
  const Parameters& parameters() const override { return task_.parameters(); }
  Forward forward(Tape& tape, const data::Batch& batch) override {
    Forward forward = task_.forward(tape, batch);
    forward.scores = Tensor();
    if (!tape.options().training && evaluations++ == 0)
      forward.loss = tape.constant(
          Tensor::full(tape.context(), Shape{}, std::numeric_limits<float>::quiet_NaN()));
    return forward;
  }
  int evaluations = 0;

 private:
  nn::Task& task_;
};

// A run that draws, and the entry of a checkpoint's identity that names its mapping.
struct Drawing {
  const char* entry;
  Precision (*precision)(DrawMapping mapping);
};
const Drawing drawings[] = {
    {"optimizer.draws",
     [](DrawMapping mapping) {
       Precision precision = Precision::bf16_sr();
       precision.weights.rounding.draws = mapping;
       precision.moments.rounding.draws = mapping;
       return precision;
     }},
    {"precision.draws", [](DrawMapping mapping) {
       Precision precision = Precision::fp8_current();
       for (Quantizer* role :
            {&precision.gemm_activations, &precision.gemm_weights, &precision.gemm_gradients})
         role->rounding = {.mode = RoundingMode::stochastic, .draws = mapping};
       precision.narrow_edges = true;
       return precision;
     }}};

}  // namespace

TEST_CASE("interrupted after any step and resumed, the weights are the same", "[unit]") {
  auto context = make_context();
  for (const Precision& precision : {Precision::fp32(), Precision::bf16_sr()}) {
    TrainerOptions options = options_of(precision);
    const std::uint64_t whole = run_whole(context, options).bits;
    for (std::uint64_t step = 1; step < 30; ++step) {
      MemoryStore store(context);
      options.checkpoints = &store;
      {
        SmallModel small(context);
        data::TokenSource source(context, token_lists(160), batching());
        options.resume = false;
        Trainer trainer(context, small.task, options);
        Follower follower(step);
        trainer.add(follower);
        const train::Report report = trainer.fit(source, nullptr, &follower.stop);
        CHECK(report.interrupted);
        CHECK(report.steps == step);
      }
      SmallModel small(context, 99);  // other first weights: all comes from the checkpoint
      data::TokenSource source(context, token_lists(160), batching());
      options.resume = true;
      Trainer trainer(context, small.task, options);
      const train::Report report = trainer.fit(source);
      CHECK(report.first_step == step);
      CHECK(report.steps == 30);
      INFO(precision.name << " interrupted after step " << step);
      CHECK(bits_of(context, small.task.parameters()) == whole);
    }
  }
}

TEST_CASE("a run goes on with the mapping of draws that its checkpoint has", "[unit]") {
  for (const auto& [entry, precision_with] : drawings) {
    INFO(entry);
    auto context = make_context();
    const auto with = precision_with;  // clang does not capture structured bindings
    const auto run = [&](DrawMapping mapping, MemoryStore& store, std::uint64_t steps,
                         bool resume) {
      TrainerOptions options = options_of(with(mapping));
      options.schedule.decay = optim::Decay::constant;
      options.checkpoints = &store;
      options.max_steps = steps;
      options.resume = resume;
      SmallModel small(context);
      data::TokenSource source(context, token_lists(160), batching());
      Trainer(context, small.task, options).fit(source);
      return bits_of(context, small.task.parameters());
    };
    const auto newest = [&](MemoryStore& store) {
      Checkpoint checkpoint;
      REQUIRE(store.load_latest(context, checkpoint));
      return checkpoint;
    };
    std::uint64_t whole[3] = {};
    for (const DrawMapping mapping :
         {DrawMapping::automatic, DrawMapping::philox, DrawMapping::ars}) {
      MemoryStore store(context);
      whole[static_cast<std::size_t>(mapping)] = run(mapping, store, 8, false);
      const Record identity = newest(store).identity;
      if (mapping == DrawMapping::philox) CHECK_FALSE(identity.contains(entry));
      if (mapping == DrawMapping::automatic) CHECK(identity.text(entry) == "ars");
    }
    CHECK(whole[0] == whole[2]);
    CHECK(whole[0] != whole[1]);

    // A checkpoint of when there was one mapping says nothing of it.
    MemoryStore store(context), old(context), halfway(context);
    run(DrawMapping::philox, store, 4, false);
    Checkpoint checkpoint = newest(store);
    checkpoint.identity.set("precision", to_string(with(DrawMapping::automatic)));
    old.save(4, checkpoint);
    CHECK(run(DrawMapping::automatic, old, 8, true) == whole[1]);
    CHECK_FALSE(newest(old).identity.contains(entry));
    // One of the second mapping is gone on with by it.
    run(DrawMapping::automatic, halfway, 4, false);
    CHECK(run(DrawMapping::automatic, halfway, 8, true) == whole[2]);
    // A mapping that is asked for is not left for it.
    checkpoint.identity.set("precision", to_string(with(DrawMapping::automatic)));
    old.save(4, checkpoint);
    CHECK(id_of([&] { run(DrawMapping::ars, old, 8, true); }) == "checkpoint.identity");
  }
}

TEST_CASE("a checkpoint of another run is refused by name", "[unit]") {
  auto context = make_context();
  MemoryStore store(context);
  TrainerOptions options = options_of();
  options.checkpoints = &store;
  options.max_steps = 2;
  options.schedule.warmup = 0;
  data::TokenSource source(context, token_lists(160), batching());
  {
    SmallModel small(context);
    Trainer(context, small.task, options).fit(source);
  }
  options.resume = true;
  const auto resumed = [&](const TrainerOptions& changed, data::TokenSource& data) {
    SmallModel small(context);
    Trainer trainer(context, small.task, changed);
    return id_of([&] { trainer.fit(data); });
  };
  TrainerOptions other = options;
  other.learning_rate = 1;
  CHECK(resumed(other, source) == "checkpoint.identity");
  other = options;
  other.seed = 6;
  CHECK(resumed(other, source) == "checkpoint.identity");
  data::TokenSource more(context, token_lists(161), batching());
  CHECK(resumed(options, more) == "checkpoint.identity");
  CHECK(resumed(options, source) == "no error");
}

TEST_CASE("a checkpoint of another model of the same shapes is refused by name", "[unit]") {
  auto context = make_context();
  data::TokenSource source(context, token_lists(32), batching());
  // The item that stands in the way of a run that goes on from one of another configuration.
  const auto refused = [&](const models::BertConfig& before, const models::BertConfig& after) {
    MemoryStore store(context);
    TrainerOptions options = options_of();
    options.checkpoints = &store;
    options.max_steps = 1;
    options.schedule.warmup = 0;
    for (const models::BertConfig& config : {before, after}) {
      models::BertClassifier model(nn::Scope{context, 7}, config, 2);
      nn::ClassificationTask task(model, 2);
      Trainer trainer(context, task, options);
      const std::string message = message_of([&] { trainer.fit(source); });
      if (message.find("[checkpoint.identity]") != std::string::npos)
        return message.substr(message.find('"'), message.rfind('"') + 1 - message.find('"'));
      options.resume = true;
    }
    return std::string("nothing");
  };
  const models::BertConfig config = small_config();
  const auto changed = [&](const auto& change) {
    models::BertConfig other = config;
    change(other);
    return refused(config, other);
  };
  CHECK(refused(config, config) == "nothing");
  CHECK(changed([](auto& other) { other.heads *= 2; }) == "\"heads\"");
  CHECK(changed([](auto& other) { other.epsilon = 1e-5f; }) == "\"epsilon\"");
  CHECK(changed([](auto& other) { other.activation = Activation::relu; }) == "\"activation\"");
  CHECK(changed([](auto& other) { other.attention_dropout = 0.5f; }) == "\"attention_dropout\"");
  CHECK(changed([](auto& other) { other.classifier_dropout = 0.5f; }) == "\"classifier_dropout\"");
  // As without one: the other dropout.
  CHECK(changed([&](auto& other) { other.classifier_dropout = config.dropout; }) == "nothing");
  // Options that change no bit.
  CHECK(changed([](auto& other) { other.recompute = true; }) == "nothing");
}

TEST_CASE("the best weights are kept, and a run that no longer improves ends", "[unit]") {
  auto context = make_context();
  for (const bool with_store : {false, true}) {
    MemoryStore store(context);
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, contradicting(64),
                               {.batch_sequences = 32, .shuffle = false});
    TrainerOptions options = patient(true);
    if (with_store) options.checkpoints = &store;
    Trainer trainer(context, small.task, options);
    Follower follower;
    trainer.add(follower);
    const train::Report report = trainer.fit(source, &held_out);
    CHECK(report.stopped_early);
    CHECK(report.steps < 400);
    CHECK(train::evaluate(context, small.task, held_out).metrics.accuracy() ==
          report.metrics.accuracy());
  }
}

TEST_CASE("a run that has ended and is resumed ends the same, with the metrics of its weights",
          "[unit]") {
  auto context = make_context();
  for (const bool best : {false, true}) {
    INFO((best ? "the best" : "the last"));
    MemoryStore store(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, contradicting(64),
                               {.batch_sequences = 32, .shuffle = false});
    TrainerOptions options = patient(best);
    options.checkpoints = &store;
    const auto run = [&] {
      SmallModel small(context);
      Trainer trainer(context, small.task, options);
      train::Report report = trainer.fit(source, &held_out);
      CHECK(report.stopped_early);
      CHECK(report.first_step == (options.resume ? report.steps : 0));  // none was left
      CHECK(report.evaluated);
      CHECK(report.evaluation_loss == train::evaluate(context, small.task, held_out).loss);
      return std::tuple(report.steps, bits_of(context, small.task.parameters()),
                        report.evaluation_loss, report.metrics.accuracy());
    };
    const auto whole = run();
    options.resume = true;
    CHECK(run() == whole);
  }
}

TEST_CASE("a second run without evaluations keeps what it learnt", "[unit]") {
  auto context = make_context();
  for (const bool with_store : {false, true}) {
    MemoryStore store(context);
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
    TrainerOptions options = options_of();
    options.keep_best = true;
    if (with_store) options.checkpoints = &store;
    Trainer trainer(context, small.task, options);
    trainer.fit(source, &held_out);
    const std::uint64_t first = bits_of(context, small.task.parameters());
    trainer.fit(source);
    CHECK(bits_of(context, small.task.parameters()) != first);
  }
}

TEST_CASE("an evaluation that is no number is never the best", "[unit]") {
  auto context = make_context();
  SmallModel small(context);
  LateTask late(small.task);
  data::TokenSource source(context, token_lists(160), batching());
  data::TokenSource held_out(context, token_lists(32), {.batch_sequences = 32, .shuffle = false});
  TrainerOptions options = options_of();
  options.keep_best = true;
  const train::Report report = Trainer(context, late, options).fit(source, &held_out);
  CHECK(late.evaluations == 3);
  CHECK(std::isfinite(report.evaluation_loss));
  CHECK(train::evaluate(context, small.task, held_out).loss == report.evaluation_loss);
}

namespace {

// A store that knows what it has.
class StepStore final : public CheckpointStore {
 public:
  void save(std::uint64_t step, const Checkpoint&) override { newest_ = step; }
  bool load_latest(Context&, Checkpoint&) override { return false; }
  void save_best(const Checkpoint&) override {}
  bool load_best(Context&, Checkpoint&) override { return false; }
  std::optional<std::uint64_t> newest() const override { return newest_; }

 private:
  std::optional<std::uint64_t> newest_{};
};

}  // namespace

TEST_CASE("a run that does not resume wants an empty store", "[unit]") {
  auto context = make_context();
  StepStore store;
  SmallModel small(context);
  data::TokenSource source(context, token_lists(160), batching());
  TrainerOptions options = options_of();
  options.max_steps = 4;
  options.checkpoints = &store;
  Trainer(context, small.task, options).fit(source);
  const std::uint64_t bits = bits_of(context, small.task.parameters());
  CHECK(message_of([&] { Trainer(context, small.task, options).fit(source); }) ==
        "Trainer::fit: checkpoints is a store whose newest is step 4, wanted an empty one: set "
        "resume, or call CheckpointFolder::clear() [checkpoint.step]");
  CHECK(bits_of(context, small.task.parameters()) == bits);  // no step was made
}
