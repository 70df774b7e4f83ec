// From text to labels, into a folder and back.

#include <soma/models.hpp>
#include <soma/ops/profiler.hpp>
#include <soma/runtime/host.hpp>
#include <soma/soma.hpp>
#include <soma/train.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

using namespace soma;
using soma_test::bits;
using soma_test::contains;
using soma_test::id_of;
using soma_test::read_text;
using soma_test::write_text;

namespace {

struct Row {
  std::string text;
  std::int64_t label;
};

std::vector<Row> rows(std::size_t count) {
  const char* const good[] = {"good", "fine", "bright", "warm"};
  const char* const bad[] = {"bad", "dull", "cold", "weak"};
  const char* const things[] = {"lamp", "film", "chair", "song", "soup"};
  std::vector<Row> made;
  for (std::size_t i = 0; i < count; ++i) {
    const bool positive = i * 7 % 3 != 0;
    made.push_back({std::string("the ") + things[i % 5] + " was " +
                        (positive ? good[i / 3 % 4] : bad[i / 3 % 4]),
                    positive ? 1 : 0});
  }
  return made;
}

text::Tokenizer tokenizer() {
  text::VocabularyTrainer trainer;
  for (const Row& row : rows(60)) trainer.add(row.text);
  return text::Tokenizer(trainer.train({.size = 80}), {});
}

models::BertConfig config() {
  models::BertConfig small;
  small.vocabulary = 80;
  small.width = 32;
  small.layers = 1;
  small.heads = 2;
  small.inner = 64;
  small.positions = 40;
  small.standard_deviation = 0.1f;
  small.dropout = small.attention_dropout = 0;
  return small;
}

models::TextClassifierOptions named() {
  return {.labels = {"negative", "positive"}, .max_length = 32, .seed = 3};
}

// That file with one part of it, wherever it is, changed.
void change(const std::string& file, std::string_view part, std::string_view by) {
  std::string content = read_text(file);
  std::size_t at = content.find(part);
  REQUIRE(at != std::string::npos);
  for (; at != std::string::npos; at = content.find(part, at + by.size()))
    content.replace(at, part.size(), by);
  write_text(file, content);
}

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("soma_classifier_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("the first program: train on rows, save, load, predict", "[unit]") {
  auto context = make_context();
  models::TextClassifier model(context, tokenizer(), config(), named());
  train::Trainer trainer(context, model,
                         {.epochs = 6, .batch_size = 16, .learning_rate = 3e-3, .seed = 2});
  const train::Report report = trainer.fit(rows(240), rows(60));
  CHECK(report.steps == 90);
  CHECK(report.metrics.accuracy() == 1);
  CHECK(report.useful_flops > 0);
  CHECK(model.predict("the soup was warm").label == "positive");
  CHECK(model.predict("the soup was dull").label == "negative");

  const Folder folder;
  model.save(folder / "model");
  const auto loaded = models::TextClassifier::from_pretrained(context, folder / "model");
  CHECK(loaded.labels() == model.labels());
  CHECK(loaded.fresh().empty());
  const models::Prediction here = model.predict("a bright chair"),
                           there = loaded.predict("a bright chair");
  CHECK(here.probabilities == there.probabilities);
  CHECK(to_string(here).starts_with(here.label + "\t0."));

  // Together with others or alone: the same number.
  const std::vector<std::string_view> texts{"a bright chair", "", "the film was weak and cold"};
  CHECK(loaded.predict(texts)[0].probabilities == here.probabilities);
}

TEST_CASE("a program's locale changes no number", "[unit]") {
  // One with a comma for the point: the system's, or made here where it has what they are made of.
  const Folder folder;
  const std::string made = folder / "de_DE.UTF-8";
  static_cast<void>(!std::system(
      ("localedef -i de_DE -f UTF-8 '" + made + "' >'" + made + ".log' 2>&1").c_str()));
  setenv("LOCPATH", std::filesystem::path(made).parent_path().c_str(), 1);
  bool commas = std::setlocale(LC_NUMERIC, "de_DE.UTF-8") != nullptr;
  unsetenv("LOCPATH");
  commas = commas || std::setlocale(LC_NUMERIC, "de_DE.UTF-8") != nullptr;
  if (!commas) SOMA_TEST_SKIP("there is no locale with commas");
  HostDescription host;
  host.share.quota = 1.5;
  auto context = make_context({.threads = 1});
  const Profiler profiler(context);
  const std::string texts[] = {to_string(models::Prediction{"good", 0.98765, {}}), to_string(host),
                               profiler.table()};
  std::setlocale(LC_NUMERIC, "C");
  CHECK(texts[0] == "good\t0.9877");
  CHECK_THAT(texts[1], contains("quota 1.50"));
  CHECK_THAT(texts[2], contains("100.0"));
  CHECK(texts[2].find(',') == std::string::npos);
}

TEST_CASE("bf16 weights are saved as they are and read into fp32", "[unit]") {
  auto context = make_context();
  models::TextClassifier model(context, tokenizer(), config(), named());
  train::Trainer trainer(context, model,
                         {.epochs = 1, .batch_size = 16, .precision = Precision::bf16_sr()});
  trainer.fit(rows(64), rows(16));
  const Folder folder;
  model.save(folder / "model");
  const auto loaded = models::TextClassifier::from_pretrained(context, folder / "model");
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const Tensor value = loaded.parameters()[i].value();
    REQUIRE(value.dtype() == DType::fp32);
    const Tensor saved = run(context, *context.built_in().cast, CastSetting{.dtype = DType::fp32},
                             {model.parameters()[i].value()})[0];
    const auto a = value.span<float>(), b = contiguous(context, saved).span<float>();
    CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
}

TEST_CASE("other labels get a classifier of their own", "[unit]") {
  auto context = make_context();
  const Folder folder;
  models::TextClassifier(context, tokenizer(), config(), named()).save(folder / "named");
  const auto fresh_with = [&](const char* name, std::vector<std::string> labels) {
    return models::TextClassifier::from_pretrained(context, folder / name,
                                                   {.labels = std::move(labels), .max_length = 32})
        .fresh()
        .size();
  };
  CHECK(fresh_with("named", {"negative", "positive"}) == 0);
  CHECK(fresh_with("named", {"0", "1"}) == 2);
  CHECK(fresh_with("named", {"a", "b", "c"}) == 2);
  auto unnamed = named();
  unnamed.labels = {"LABEL_0", "LABEL_1"};
  models::TextClassifier(context, tokenizer(), config(), unnamed).save(folder / "unnamed");
  CHECK(fresh_with("unnamed", {"0", "1"}) == 0);
  CHECK(fresh_with("unnamed", {"a", "b", "c"}) == 2);
}

TEST_CASE("labels in another order keep their classifier", "[unit]") {
  auto context = make_context();
  const Folder folder;
  for (const std::vector<std::string>& labels :
       {std::vector<std::string>{"a", "b", "c"}, {"LABEL_0", "LABEL_1", "LABEL_2"}}) {
    auto options = named();
    options.labels = labels;
    const models::TextClassifier saved(context, tokenizer(), config(), options);
    const nn::Linear& from = saved.model().classifier;
    for (std::size_t i = 0; i < 3; ++i)
      from.bias.value().mutable_span<float>()[i] = static_cast<float>(i);
    saved.save(folder / "model");
    options.labels = {labels[2], labels[0], labels[1]};
    const auto loaded = models::TextClassifier::from_pretrained(context, folder / "model", options);
    CHECK(loaded.labels() == options.labels);
    CHECK(loaded.fresh().empty());
    const nn::Linear& to = loaded.model().classifier;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t row = (i + 2) % 3;
      CHECK(bits(context, to.weight.value().slice(0, i, i + 1)) ==
            bits(context, from.weight.value().slice(0, row, row + 1)));
      CHECK(to.bias.value().span<float>()[i] == static_cast<float>(row));
    }
  }
}

TEST_CASE("labels that an answer cannot name are refused, unless others replace them", "[unit]") {
  auto context = make_context();
  const Folder folder;
  const auto load = [&](const models::TextClassifierOptions& options) {
    return models::TextClassifier::from_pretrained(context, folder / "model", options);
  };
  for (const char* label : {"a\\nb", "a\\rb", "a\\tb", "", "positive"}) {
    models::TextClassifier(context, tokenizer(), config(), named()).save(folder / "model");
    change(folder / "model/config.json", "\"negative\"", "\"" + std::string(label) + "\"");
    INFO(label);
    CHECK(id_of([&] { load({}); }) == "models.config_value");
    CHECK(load(named()).fresh().size() == 2);
  }
  for (const char* label : {"a\nb", "a\rb", "a\tb", "", "positive"}) {
    auto options = named();
    options.labels[0] = label;
    CHECK(id_of([&] { models::TextClassifier(context, tokenizer(), config(), options); }) ==
          "models.config_value");
  }
}

TEST_CASE("a classifier of another task is not taken", "[unit]") {
  auto context = make_context();
  const Folder folder;
  auto unnamed = named();
  unnamed.labels = {"LABEL_0", "LABEL_1"};
  const models::TextClassifier saved(context, tokenizer(), config(), unnamed);
  const auto fresh = [&](const models::TextClassifierOptions& options) {
    return models::TextClassifier::from_pretrained(context, folder / "model", options)
        .fresh()
        .size();
  };
  const std::string file = folder / "model/config.json";
  saved.save(folder / "model");
  change(file, "\"architectures\": [\"BertForSequenceClassification\"]", "\"architectures\": []");
  CHECK(fresh({}) == 0);

  saved.save(folder / "model");
  change(file, "BertForSequenceClassification", "BertForTokenClassification");
  CHECK(fresh({}) == 2);
  CHECK(fresh(named()) == 2);

  // Its classifier has one row.
  change(file, "BertForTokenClassification", "BertForMultipleChoice");
  const models::BertClassifier choice(nn::Scope{context, 1}, saved.config(), 1);
  save_safetensors(folder / "model/model.safetensors", nn::state_dict(nn::parameters(choice)));
  CHECK(fresh(named()) == 2);

  // Any number of labels a text, or numbers: what it gives are no logits of a softmax.
  saved.save(folder / "model");
  CHECK(fresh({}) == 0);
  change(file, "single_label_classification", "multi_label_classification");
  CHECK(fresh({}) == 0);
  CHECK(fresh(unnamed) == 2);
  unnamed.kind = data::LabelKind::several;
  CHECK(fresh(unnamed) == 0);
  CHECK(fresh({.kind = data::LabelKind::number}) == 2);
  change(file, "multi_label_classification", "regression");
  CHECK(id_of([&] { fresh({}); }) == "models.config_value");
}

TEST_CASE("weights of no known format are refused for what they are", "[unit]") {
  auto context = make_context();
  const Folder folder;
  models::TextClassifier(context, tokenizer(), config(), named()).save(folder / "model");
  change(folder / "model/model.safetensors", "\"F32\"", "\"Q32\"");
  CHECK(id_of([&] { models::TextClassifier::from_pretrained(context, folder / "model"); }) ==
        "safetensors.dtype");
}

TEST_CASE("what does not fit is refused", "[unit]") {
  auto context = make_context();
  auto options = named();
  options.labels = {"one"};
  CHECK(id_of([&] { models::TextClassifier(context, tokenizer(), config(), options); }) ==
        "models.config_value");
  options = named();
  options.max_length = 41;
  CHECK(id_of([&] { models::TextClassifier(context, tokenizer(), config(), options); }) ==
        "models.config_value");
  const models::TextClassifier model(context, tokenizer(), config(), named());
  CHECK(id_of([&] { model.batches(std::vector<Row>{{"text", 2}}); }) == "data.labels");
  CHECK(id_of([&] { models::TextClassifier::from_pretrained(context, "/nonexistent"); }) ==
        "file.read");

  // A folder that does not say how long texts may be: as long as there are positions.
  const Folder folder;
  options.max_length = 0;
  models::TextClassifier(context, tokenizer(), config(), options).save(folder / "model");
  std::filesystem::remove(folder / "model/tokenizer_config.json");
  const auto loaded = models::TextClassifier::from_pretrained(context, folder / "model");
  CHECK(loaded.max_length() == 40);
  std::string text = "lamp";
  for (int i = 0; i < 100; ++i) text += " lamp";
  CHECK(loaded.predict(text).probability > 0);
}
