// A model with an operator of its own under the trainer, and its checkpoints.

#include "train/small_run.hpp"

#include "catch.hpp"
#include "support/errors.hpp"

using namespace soma;
using namespace soma_test;
using train::Trainer;
using train::TrainerOptions;

namespace {

// The small classifier, with an activation of this test's own over its logits.
struct OwnModel {
  explicit OwnModel(Context& context)
      : model(nn::Scope{context, 7}, small_config(), 2),
        soften(find_operator(context.operators(), "test::soften")) {}
  Var operator()(Tape& tape, const Var& x) const { return soften(tape, model(tape, x)); }
  void collect(nn::Collector& collector) const { model.collect(collector); }
  models::BertClassifier model;
  OperatorFunction<> soften;
};

void add_soften(Context& context) {
  register_elementwise(
      context.operators(), "test::soften", [](float x) { return x / (1 + (x < 0 ? -x : x)); },
      [](float x, float dy) {
        const float d = 1 + (x < 0 ? -x : x);
        return dy / (d * d);
      });
}

}  // namespace

TEST_CASE("a run with an operator of its own resumes where that is registered", "[unit]") {
  auto context = make_context();
  add_soften(context);
  MemoryStore store(context);
  TrainerOptions options{.epochs = 1, .max_steps = 4, .learning_rate = 1e-3, .seed = 5};
  options.checkpoints = &store;
  const data::BatchOptions batching{.batch_sequences = 16, .shuffle = true, .seed = 3};
  {
    const OwnModel model(context);
    nn::ClassificationTask<OwnModel> task(model, 2);
    data::TokenSource source(context, token_lists(160), batching);
    Trainer(context, task, options).fit(source);
  }
  Checkpoint saved;
  REQUIRE(store.load_latest(context, saved));
  CHECK(saved.progress.text("operators") == "test::soften");

  options.resume = true;
  const auto resume = [&](Context& other, const auto& model) {
    nn::ClassificationTask<std::remove_cvref_t<decltype(model)>> task(model, 2);
    data::TokenSource source(other, token_lists(160), batching);
    Trainer(other, task, options).fit(source);
  };
  auto without = make_context();
  CHECK(id_of([&] { resume(without, SmallModel(without).model); }) == "checkpoint.operator");
  auto with = make_context();
  add_soften(with);
  CHECK(id_of([&] { resume(with, OwnModel(with)); }) == "no error");
}
