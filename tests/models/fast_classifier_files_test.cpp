// The fast kind of text classifier: from rows to labels, into a folder and back, the same bits
// whatever the threads and ranks, and after a run that was interrupted.

#include <soma/soma.hpp>

#include <soma/io/checkpoint_folder.hpp>
#include <soma/io/state_hash.hpp>
#include <soma/models/fast_classifier.hpp>
#include <soma/nn/state.hpp>
#include <soma/parallel/in_process.hpp>
#include <soma/sparse.hpp>
#include <soma/train.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace soma;
using soma_test::id_of;
using soma_test::read_text;
using soma_test::write_text;

namespace {

struct Row {
  std::string text;
  std::int64_t label;
};

// "not good" and "not bad" mean the opposite of their words: pairs are needed.
std::vector<Row> made_rows(std::size_t count) {
  const char* const good[] = {"good", "fine", "bright", "warm"};
  const char* const bad[] = {"bad", "dull", "cold", "weak"};
  const char* const things[] = {"lamp", "film", "chair", "song", "soup"};
  std::vector<Row> made;
  for (std::size_t i = 0; i < count; ++i) {
    const bool word = i * 7 % 3 != 0, negated = i % 5 == 1;
    made.push_back({std::string("the ") + things[i % 5] + " was " + (negated ? "not " : "") +
                        (word ? good[i / 3 % 4] : bad[i / 3 % 4]),
                    word != negated ? 1 : 0});
  }
  return made;
}

models::FastOptions options() {
  return {.labels = {"negative", "positive"}, .features = {.bits = 12}, .width = 16, .seed = 3};
}

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("soma_fast_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

struct Run {
  int threads = 1;
  CheckpointStore* store = nullptr;
  std::uint64_t max_steps = 0;
  bool resume = false;
  Communicator* communicator = nullptr;
};

// A hash of the weights after a run.
std::uint64_t bits_of_run(const Run& run) {
  auto context = make_context({.threads = run.threads});
  add_sparse(context);
  models::FastClassifier model(context, options());
  optim::RowAdagrad optimizer(context, model.parameters());
  train::TrainerOptions settings{.epochs = 4, .max_steps = run.max_steps, .seed = 5};
  settings.schedule.decay = optim::Decay::constant;
  settings.optimizer = &optimizer;
  settings.checkpoints = run.store;
  settings.resume = run.resume;
  settings.communicator = run.communicator;
  train::Trainer trainer(context, model, settings);
  const auto source = model.batches(made_rows(200), {.batch_sequences = 16, .seed = 5});
  trainer.fit(*source);
  return state_hash(nn::state_dict(model.parameters()));
}

}  // namespace

TEST_CASE("a fast classifier learns, is saved and answers as before", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  models::FastClassifier model(context, options());
  optim::RowAdagrad optimizer(context, model.parameters());
  train::TrainerOptions settings{.epochs = 8, .seed = 2};
  settings.optimizer = &optimizer;
  train::Trainer trainer(context, model, settings);
  const train::Report report = trainer.fit(made_rows(400), made_rows(90));
  CHECK(report.metrics.accuracy() == 1);
  CHECK(model.predict("the soup was not warm").label == "negative");
  CHECK(model.predict("the soup was not dull").label == "positive");

  const Folder folder;
  model.save(folder / "model");
  CHECK(models::is_fast_classifier(folder / "model"));
  CHECK(!models::is_fast_classifier(folder / "nothing"));
  const auto loaded = models::FastClassifier::from_folder(context, folder / "model");
  CHECK(loaded.labels() == model.labels());
  for (const char* text : {"a bright chair", "", "the film was weak and cold", "\xff unknown"})
    CHECK(loaded.predict(text).probabilities == model.predict(text).probabilities);
  // Rows that training never touched are not stored.
  const std::string weights = folder / "model/model.safetensors";
  CHECK(std::filesystem::file_size(weights) < 4096 * 16 * 4 / 4);

  // The way of single texts gives the probabilities of the way that training takes.
  const std::vector<Row> rows = made_rows(40);
  const auto source = model.batches(rows, {.batch_sequences = 40, .shuffle = false});
  data::Batch batch;
  REQUIRE(source->next(batch));
  Tape tape(context, {.record = false, .training = false});
  const Tensor logits = model.forward(tape, batch).scores;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float* row = logits.data<float>() + 2 * i;
    const double other = 1 / (1 + std::exp(static_cast<double>(row[0] - row[1])));
    // Both compute a logit with some 20 roundings of numbers below 16.
    CHECK(std::abs(other - static_cast<double>(model.predict(rows[i].text).probabilities[1])) <
          16 * 20 * 0x1p-24);
  }
}

TEST_CASE("threads, ranks and interruptions change no bit of a fast classifier", "[invariance]") {
  const std::uint64_t whole = bits_of_run({});
  CHECK(bits_of_run({.threads = 2}) == whole);
  CHECK(bits_of_run({.threads = 8}) == whole);

  const Folder folder;
  {
    CheckpointFolder store(folder / "checkpoints");
    bits_of_run({.store = &store, .max_steps = 17});
    CHECK(bits_of_run({.threads = 2, .store = &store, .resume = true}) == whole);
  }

  InProcessGroup group(2);
  std::uint64_t results[2] = {};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      InProcessCommunicator communicator(group, rank);
      results[rank] = bits_of_run({.communicator = &communicator});
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK(results[0] == whole);
  CHECK(results[1] == whole);
}

TEST_CASE("folders that are no fast classifier are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  CHECK(id_of([&] { models::FastClassifier made(context, options()); }) == "context.no_sparse");
  add_sparse(context);
  models::FastOptions wrong = options();
  wrong.labels = {"one"};
  CHECK(id_of([&] { models::FastClassifier made(context, wrong); }) == "models.config_value");
  wrong = options();
  wrong.width = 0;
  CHECK(id_of([&] { models::FastClassifier made(context, wrong); }) == "models.config_value");

  const Folder folder;
  const std::string model = folder / "model", config = folder / "model/config.json";
  models::FastClassifier(context, options()).save(model);
  const std::string whole = read_text(config);
  const auto id_with = [&](std::string_view part, std::string_view by) {
    std::string changed = whole;
    const std::size_t at = changed.find(part);
    REQUIRE(at != changed.npos);
    write_text(config, changed.replace(at, part.size(), by));
    return id_of([&] { models::FastClassifier::from_folder(context, model); });
  };
  CHECK(id_with("\"features.version\": 1", "\"features.version\": 3") == "text.features");
  CHECK(id_with("\"features.bits\": 12", "\"features.bits\": 200") == "text.features");
  CHECK(id_with("\"features.bits\": 12", "\"features.bits\": 11") == "no error");  // no rows yet
  CHECK(id_with("soma_fast_classifier", "bert") == "models.config_type");
  CHECK(id_with("words_and_punctuation", "sounds") == "text.features");
  CHECK(id_with("\"width\": 16", "\"width\": 8") == "state.shape");
  CHECK(id_with("\"width\": 16", "\"width\": -1") == "record.type");
  CHECK(id_with("\"width\": 16, ", "") == "record.missing");
  CHECK(id_with("negative", "positive") == "models.config_value");
  write_text(config, "{");
  CHECK(id_of([&] { models::FastClassifier::from_folder(context, model); }) == "record.json");
  write_text(config, whole);
  CHECK(id_of([&] { models::FastClassifier::from_folder(context, model); }) == "no error");
  std::filesystem::remove(folder / "model/model.safetensors");
  CHECK(id_of([&] { models::FastClassifier::from_folder(context, model); }) == "file.read");
}

TEST_CASE("the rules choose a model from the size of the data", "[unit]") {
  const auto chosen = [](std::size_t rows, std::size_t classes, std::uint64_t bytes,
                         std::uint64_t unspaced = 0) {
    return models::fast_options_for({rows, classes, bytes, unspaced}, {"a", "b"}, 1);
  };
  const models::FastOptions reviews = chosen(20000, 2, 26'000'000);
  CHECK(reviews.width == 16);
  CHECK(reviews.features.bits == 19);  // 32 MiB
  CHECK(reviews.features.parts == 0);
  const models::FastOptions intents = chosen(15000, 150, 600'000);
  CHECK(intents.width == 64);
  CHECK(intents.features.bits == 17);
  CHECK(intents.features.parts == 5);
  CHECK(chosen(10, 2, 100).features.bits == 12);
  CHECK(chosen(7000, 40, 700'000).width == 32);
  const auto epochs = [](std::size_t rows, std::size_t classes) {
    return models::fast_epochs_for({.rows = rows, .classes = classes});
  };
  CHECK(epochs(20000, 2) == 2);
  CHECK(epochs(15000, 150) == 3);
  CHECK(epochs(5000, 4) == 2);
  CHECK(epochs(4000, 2) == 3);
  // Texts without spaces between words.
  CHECK(chosen(4000, 2, 100'000, 50'000).features.tokens == text::TokenKind::words_and_punctuation);
  const text::HashedFeatureOptions dense = chosen(4000, 2, 100'000, 50'001).features;
  CHECK(dense.tokens == text::TokenKind::characters);
  CHECK(dense.window == 1);
  CHECK(dense.ngrams == 3);
  CHECK(dense.parts == 0);
  CHECK(models::unspaced_bytes("film \u00e9\u0411\uac00 \xff") == 0);  // Latin, Cyrillic, Hangul
  CHECK(models::unspaced_bytes("a \u4e2d\u3042\u0e01\u1780\U00020000") == 4 * 3 + 4);
}
