// A pretrained model that is cut into stages: each rank reads its own weights from the files, and
// the first rank saves all of them without holding them.

#include <soma/models.hpp>
#include <soma/parallel/in_process.hpp>
#include <soma/pipeline.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using namespace soma_test;
using models::TextClassifier;

namespace {

struct Row {
  std::string text;
  std::int64_t label;
};

std::vector<Row> rows() {
  std::vector<Row> made;
  for (std::size_t i = 0; i < 32; ++i)
    made.push_back({"word" + std::to_string(i % 7) + (i % 3 == 0 ? " up" : " down at last"),
                    i % 3 == 0 ? 1 : 0});
  return made;
}

models::BertConfig config() {
  models::BertConfig small;
  small.vocabulary = 60;
  small.width = 64;
  small.layers = 3;
  small.heads = 2;
  small.inner = 256;
  small.positions = 32;
  small.dropout = small.attention_dropout = 0;
  return small;
}

void save_pretrained(const std::string& folder) {
  auto context = make_context({.threads = 1});
  text::VocabularyTrainer trainer;
  for (const Row& row : rows()) trainer.add(row.text);
  TextClassifier(context, text::Tokenizer(trainer.train({.size = 60}), {}), config(),
                 {.labels = {"no", "yes"}, .max_length = 16, .seed = 3})
      .save(folder);
}

// How much of the heap the weights took until the first step.
struct StartHook final : train::Callback {
  explicit StartHook(Heap& memory) : heap(memory), before(memory.bytes_in_use()) {
    heap.reset_peak();
  }
  void on_start(const train::RunInfo&) override { taken = heap.peak_bytes() - before; }
  Heap& heap;
  std::size_t before, taken = 0;
};

struct Trained {
  std::vector<std::string> fresh{};
  std::size_t built = 0, taken = 0, own = 0;  // bytes of heap; numbers of the stage
  double loss = 0;                            // the loss of an evaluation in the end
  std::string error{};
};

train::TrainerOptions options_of(const Precision& precision) {
  return {.max_steps = 3, .learning_rate = 1e-3, .seed = 2, .precision = precision};
}

void train_whole(const std::string& from, const std::vector<std::string>& labels,
                 const Precision& precision, const std::string& to, Trained& result) {
  auto context = make_context({.threads = 1});
  TextClassifier model =
      TextClassifier::from_pretrained(context, from, {.labels = labels, .seed = 5});
  result.fresh = model.fresh();
  const auto source = model.batches(rows(), {.batch_sequences = 16, .seed = 4});
  train::Trainer trainer(context, model, options_of(precision));
  trainer.fit(*source);
  result.loss = train::evaluate(context, model, *source, &trainer.precision()).loss;
  model.save(to);
}

void train_stage(const std::string& from, const std::vector<std::string>& labels,
                 const Precision& precision, const std::string& to, Communicator& ranks,
                 Trained& result) {
  auto context = make_context({.threads = 1});
  nn::Later later;
  TextClassifier model = TextClassifier::from_pretrained(
      context, from, {.labels = labels, .seed = 5, .later = &later});
  result.fresh = model.fresh();
  result.built = context.heap().peak_bytes();
  const auto source = model.batches(rows(), {.batch_sequences = 16, .seed = 4});
  train::TrainerOptions options = options_of(precision);
  options.communicator = &ranks;
  options.pipeline = {.partitions = 2, .microbatches = 2, .cuts = {"layer.1"}, .later = &later};
  train::PipelineTrainer trainer(context, model, options);
  StartHook hook(context.heap());
  trainer.add(hook);
  trainer.fit(*source);
  result.taken = hook.taken;
  for (const Parameter& parameter : trainer.own_parameters())
    result.own += parameter.value().elements();
  trainer.on_first([&](TensorSource& weights) { model.save(to, &weights); });
  result.loss = trainer.evaluate(*source).value().loss;
}

}  // namespace

TEST_CASE("each stage reads its own weights of a pretrained model, with the same bits", "[unit]") {
  const TemporaryFolder folder;
  const std::string files = folder / "files";
  save_pretrained(files);
  // The files' labels, in another order, and others, which get a classifier of their own.
  const std::vector<std::string> all_labels[] = {{"no", "yes"}, {"yes", "no"}, {"a", "b", "c"}};
  for (std::size_t i = 0; i < 3; ++i) {
    INFO("labels " << i);
    const Precision precision = i == 1 ? Precision::bf16_sr() : Precision::fp32();
    const std::string number = std::to_string(i);
    Trained whole;
    train_whole(files, all_labels[i], precision, folder / ("whole" + number), whole);
    InProcessGroup group(2);
    Trained stages[2];
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        Trained& own = stages[rank];
        try {
          InProcessCommunicator ranks(group, rank);
          ranks.set_time_limit(60);
          train_stage(files, all_labels[i], precision, folder / ("stages" + number), ranks, own);
        } catch (const std::exception& error) {
          own.error = error.what();
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const Trained& own : stages) {
      REQUIRE(own.error == "");
      CHECK(own.fresh == whole.fresh);
      CHECK(own.loss == whole.loss);
      // Before: names, paths and outlines, and no weights. Then those of the stage, a page of what
      // is beside each, and of the largest one fp32 numbers while it becomes another type.
      CHECK(own.built < std::size_t{1} << 16);
      const std::size_t width = precision.weights.format == formats::fp32 ? 4 : 2;
      CHECK(own.taken >= width * own.own);
      CHECK(own.taken <= width * own.own + 4 * 64 * 256 + (std::size_t{1} << 15));
    }
    CHECK(whole.fresh.empty() == (i < 2));
    for (const char* name : {"/model.safetensors", "/config.json", "/tokenizer.json"})
      CHECK(read_text(folder / ("stages" + number + name)) ==
            read_text(folder / ("whole" + number + name)));
  }
}

TEST_CASE("weights of another model are not saved as this one's", "[unit]") {
  const TemporaryFolder folder;
  save_pretrained(folder / "files");
  auto context = make_context({.threads = 1});
  const TextClassifier model = TextClassifier::from_pretrained(context, folder / "files");
  StateDict state = nn::state_dict(model.parameters());
  state.erase("classifier.bias");
  StateSource fewer(state);
  CHECK(id_of([&] { model.save(folder / "new", &fewer); }) == "state.missing_name");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"files"});
}
