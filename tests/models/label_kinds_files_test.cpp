// Models that give a text any number of labels, or a number: trained, evaluated, saved, loaded.

#include <soma/models.hpp>
#include <soma/soma.hpp>
#include <soma/train.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using namespace soma_test;
using data::LabelKind;
using models::TextClassifier;

namespace {

constexpr const char* words[] = {"red", "round", "heavy", "the", "ball"};

// A text, and which of the first three words it has; its number is their sum of 0.5, 1 and -2.
std::vector<text::LabelledRow> rows(std::size_t count) {
  std::vector<text::LabelledRow> made;
  for (std::size_t i = 0; i < count; ++i) {
    text::LabelledRow row{.text = "the"};
    for (std::int32_t j = 0; j < 3; ++j)
      if ((i >> j) % 2 != 0) {
        row.text += std::string(" ") + words[j];
        row.labels.push_back(j);
        row.number += j == 0 ? 0.5f : j == 1 ? 1.0f : -2.0f;
      }
    row.text += " ball";
    made.push_back(std::move(row));
  }
  return made;
}

TextClassifier make(Context& context, LabelKind kind, std::vector<std::string> labels = {}) {
  std::vector<std::string> pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  pieces.insert(pieces.end(), std::begin(words), std::end(words));
  if (labels.empty() && kind == LabelKind::several) labels = {"red", "round", "heavy"};
  return TextClassifier(context, text::Tokenizer(text::Vocabulary::from_pieces(pieces)),
                        {.width = 16,
                         .layers = 1,
                         .heads = 2,
                         .inner = 32,
                         .positions = 16,
                         .dropout = 0,
                         .attention_dropout = 0,
                         .standard_deviation = 0.1f},
                        {.labels = labels, .seed = 5, .kind = kind});
}

train::Report fit(Context& context, TextClassifier& model) {
  train::Trainer trainer(context, model,
                         {.epochs = 12, .batch_size = 16, .learning_rate = 1e-2, .seed = 2});
  return trainer.fit(rows(160), rows(16));
}

}  // namespace

TEST_CASE("a model learns which labels a text has", "[unit][models]") {
  auto context = make_context({.threads = 1});
  TextClassifier model = make(context, LabelKind::several);
  CHECK(model.classes() == 0);
  const train::Report report = fit(context, model);
  REQUIRE(report.evaluated);
  CHECK(metrics::find(report.values, "micro_f1")->value == 1);
  CHECK(metrics::find(report.values, "f1_2")->title == "F1 of heavy");

  const models::Prediction two = model.predict("the heavy red ball"), none = model.predict("the");
  CHECK(std::vector<std::string>(two.labels) == (two.probabilities[2] > two.probabilities[0]
                                                     ? std::vector<std::string>{"heavy", "red"}
                                                     : std::vector<std::string>{"red", "heavy"}));
  CHECK(two.label == two.labels[0]);
  CHECK(two.probabilities[1] < 0.5f);
  CHECK(to_string(two).starts_with(two.labels[0] + "\t0.9"));
  CHECK(to_string(two).find("\t" + two.labels[1] + "\t0.") != std::string::npos);
  CHECK(none.labels.empty());
  CHECK(to_string(none).empty());

  const TemporaryFolder folder;
  model.save(folder / "model");
  CHECK_THAT(read_text(folder / "model/config.json"),
             contains("\"problem_type\": \"multi_label_classification\""));
  auto loaded = TextClassifier::from_pretrained(context, folder / "model");
  CHECK(loaded.kind() == LabelKind::several);
  CHECK(loaded.fresh().empty());
  CHECK(loaded.predict("the heavy red ball").probabilities == two.probabilities);
  const auto source = loaded.batches(rows(16), {.batch_sequences = 5, .shuffle = false});
  const train::Evaluation evaluation = train::evaluate(context, loaded, *source);
  CHECK(std::fabs(evaluation.loss - report.evaluation_loss) <= 1e-6);
  // One label is a model of its own kind, and so is a label more.
  CHECK(make(context, LabelKind::several, {"spam"}).labels().size() == 1);
  CHECK(id_of([&] {
          make(context, LabelKind::several)
              .batches(std::vector<text::LabelledRow>{{.text = "the", .labels = {3}}});
        }) == "data.labels");
}

TEST_CASE("the loss of several labels is the mean binary cross entropy of all", "[unit][models]") {
  auto context = make_context({.threads = 1});
  TextClassifier model = make(context, LabelKind::several);
  const auto some = rows(6);
  const auto source = model.batches(some, {.batch_sequences = 6, .shuffle = false});
  data::Batch batch;
  REQUIRE(source->next(batch));
  Tape tape(context, {.record = false, .training = false});
  const nn::Task::Forward forward = model.forward(tape, batch);
  double wanted = 0;
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      const double logit = static_cast<double>(forward.scores.span<float>()[3 * i + j]);
      const double truth = (i >> j) % 2 != 0 ? 1 : 0;
      wanted += std::log1p(std::exp(-std::fabs(logit))) + std::max(logit, 0.0) - truth * logit;
    }
  // 18 terms of fp32, each of a few roundings.
  const double loss = static_cast<double>(forward.loss.value().data<float>()[0]);
  CHECK(std::fabs(loss - wanted / 18) <= 24 * 0x1p-24 * wanted / 18 + 0x1p-22);
  CHECK(model.loss_count(batch) == 18);

  // The parts of a batch sum to the same.
  double sum = 0;
  for (std::size_t first = 0; first < 8; first += 2) {
    const data::Batch part = data::part_of(context, batch, first, 2);
    sum += static_cast<double>(model.forward(tape, part).loss.value().data<float>()[0]);
  }
  CHECK(std::fabs(sum - wanted) <= 24 * 0x1p-24 * wanted + 0x1p-20);

  // A batch of another kind is refused.
  TextClassifier other = make(context, LabelKind::one, {"a", "b"});
  const auto others = other.batches(some, {.batch_sequences = 6, .shuffle = false});
  REQUIRE(others->next(batch));
  CHECK(id_of([&] { model.forward(tape, batch); }) == "train.label");
}

TEST_CASE("a model learns a number", "[unit][models]") {
  auto context = make_context({.threads = 1});
  TextClassifier model = make(context, LabelKind::number);
  CHECK(model.labels() == std::vector<std::string>{"LABEL_0"});
  const train::Report report = fit(context, model);
  REQUIRE(report.evaluated);
  const double mse = metrics::find(report.values, "mse")->value;
  CHECK(mse < 0.01);
  CHECK(std::fabs(report.evaluation_loss - mse) <= 1e-5);
  CHECK(metrics::find(report.values, "r2")->value > 0.99);
  const models::Prediction prediction = model.predict("the red round ball");
  CHECK(std::fabs(prediction.number - 1.5f) < 0.3f);
  CHECK(prediction.probabilities.empty());
  CHECK(to_string(prediction) == soma::float_text(prediction.number));

  const TemporaryFolder folder;
  model.save(folder / "model");
  CHECK_THAT(read_text(folder / "model/config.json"), contains("\"problem_type\": \"regression\""));
  const auto loaded = TextClassifier::from_pretrained(context, folder / "model");
  CHECK(loaded.kind() == LabelKind::number);
  CHECK(loaded.predict("the red round ball").number == prediction.number);
  // As the usual library has it, a single label without problem_type is a number.
  std::string config = read_text(folder / "model/config.json");
  const std::string_view line = "  \"problem_type\": \"regression\",\n";
  config.erase(config.find(line), line.size());
  write_text(folder / "model/config.json", config);
  CHECK(TextClassifier::from_pretrained(context, folder / "model").kind() == LabelKind::number);
  CHECK(id_of([&] { make(context, LabelKind::number, {"a", "b"}); }) == "models.config_value");
}

TEST_CASE("a model that gives no number answers with an error", "[unit][models]") {
  auto context = make_context({.threads = 1});
  for (const LabelKind kind : {LabelKind::one, LabelKind::several, LabelKind::number})
    for (const float broken :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const TextClassifier model = make(
          context, kind,
          kind == LabelKind::one ? std::vector<std::string>{"a", "b"} : std::vector<std::string>{});
      const std::vector<std::string_view> texts{"the", "ball"};
      CHECK(model.predict(texts).size() == 2);
      model.model().classifier.bias.value().mutable_data<float>()[0] = broken;
      CHECK_THAT(message_of([&] { model.predict(texts); }),
                 contains(std::isnan(broken) ? " is NaN, wanted a finite number"
                                             : " is infinite, wanted a finite number"));
      CHECK(id_of([&] { model.predict(texts); }) == "models.not_finite");
    }
}
