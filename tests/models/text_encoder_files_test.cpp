// Vectors of texts: pooling beside plain loops, folders as sentence-transformers has them, and what
// is refused in them; classifiers that read the mean of a text.

#include <soma/models.hpp>
#include <soma/soma.hpp>
#include <soma/train.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using namespace soma_test;
using models::Pooling;
using models::TextEncoder;

namespace {

// Sentences of 1 to 12 words.
std::vector<std::string> sentences(std::size_t count) {
  const char* const words[] = {"the",  "lamp", "was", "warm", "and", "a",    "film",
                               "dull", "song", "of",  "cold", "tea", "rain", "quite"};
  std::vector<std::string> made;
  DrawSequence draws({.seed = 3, .stream = stream_id("text_encoder", "sentences")});
  for (std::size_t i = 0; i < count; ++i) {
    std::string text;
    for (std::uint32_t j = 0, length = 1 + draws.below(12); j < length; ++j)
      text.append(j == 0 ? "" : " ").append(words[draws.below(14)]);
    made.push_back(text);
  }
  return made;
}

std::vector<std::string_view> views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

text::Tokenizer tokenizer() {
  text::VocabularyTrainer trainer;
  for (const std::string& text : sentences(100)) trainer.add(text);
  return text::Tokenizer(trainer.train({.size = 70}), {});
}

models::BertConfig config(models::BertKind kind = models::BertKind::bert) {
  return {.vocabulary = 70,
          .width = 24,
          .layers = 2,
          .heads = 2,
          .inner = 48,
          .positions = 32,
          .standard_deviation = 0.3f,
          .kind = kind};
}

models::TextClassifier classifier(Context& context, Pooling pooling = Pooling::first,
                                  models::BertKind kind = models::BertKind::bert) {
  return models::TextClassifier(
      context, tokenizer(), config(kind),
      {.labels = {"no", "yes"}, .seed = 4, .dropout = 0, .pooling = pooling});
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// The vector of a text by plain loops over the hidden states of its tokens.
std::vector<double> plain_vector(Context& context, const models::TextClassifier& model,
                                 const std::string& text, Pooling pooling, bool normalised) {
  const std::vector<std::int32_t> ids = model.tokenizer().encode(text).ids;
  Tape tape(context, {.record = false, .training = false});
  const std::size_t lengths[] = {ids.size()};
  const Var rows =
      tape.constant(Tensor::from(context, std::span<const std::int32_t>(ids), Shape{ids.size()}),
                    Sequences::from_lengths(context, lengths));
  const std::vector<float> hidden = values(context, model.model().bert(tape, rows).value());
  const std::size_t width = model.config().width;
  std::vector<double> vector(width);
  for (std::size_t c = 0; c < width; ++c) {
    double sum = 0, most = static_cast<double>(hidden[c]);
    for (std::size_t t = 0; t < ids.size(); ++t) {
      sum += static_cast<double>(hidden[t * width + c]);
      most = std::max(most, static_cast<double>(hidden[t * width + c]));
    }
    vector[c] = pooling == Pooling::mean    ? sum / static_cast<double>(ids.size())
                : pooling == Pooling::first ? static_cast<double>(hidden[c])
                                            : most;
  }
  double squares = 0;
  for (const double value : vector) squares += value * value;
  if (normalised)
    for (double& value : vector) value /= std::sqrt(squares);
  return vector;
}

}  // namespace

TEST_CASE("an encoder's vectors are the pooled hidden states, whatever the other texts are",
          "[unit]") {
  auto context = make_context({.threads = 2});
  const TemporaryFolder folder;
  const std::vector<std::string> texts = sentences(60);
  for (const models::BertKind kind : {models::BertKind::bert, models::BertKind::distilbert}) {
    const models::TextClassifier model = classifier(context, Pooling::first, kind);
    model.save(folder / "model");
    for (const Pooling pooling : {Pooling::first, Pooling::mean, Pooling::max})
      for (const bool normalised : {false, true}) {
        const TextEncoder encoder = TextEncoder::from_pretrained(
            context, folder / "model", {.pooling = pooling, .normalised = normalised});
        const Tensor all = encoder.embed(views(texts));
        REQUIRE(all.shape() == Shape{60, 24});
        double worst = 0;
        for (std::size_t i = 0; i < texts.size(); ++i) {
          const std::vector<double> wanted =
              plain_vector(context, model, texts[i], pooling, normalised);
          for (std::size_t c = 0; c < wanted.size(); ++c)
            worst = std::max(
                worst, std::fabs(static_cast<double>(all.span<float>()[i * 24 + c]) - wanted[c]));
        }
        CHECK(worst <= 8 * 0x1p-24);  // hidden states below 4, a few roundings
        for (const std::size_t i : {0u, 17u, 59u})
          CHECK(bits(context, encoder.embed({texts[i]})) == bits(context, all.slice(0, i, i + 1)));
      }
    std::filesystem::remove_all(folder / "model");
  }
}

TEST_CASE("a bare folder has the mean; a saved encoder reads back to the same bits", "[unit]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const std::vector<std::string> texts = sentences(20);
  for (const models::BertKind kind : {models::BertKind::bert, models::BertKind::distilbert}) {
    classifier(context, Pooling::first, kind).save(folder / "model");
    const TextEncoder bare = TextEncoder::from_pretrained(context, folder / "model");
    CHECK(bare.pooling() == Pooling::mean);
    CHECK_FALSE(bare.normalised());
    for (const bool normalised : {true, false}) {  // the second replaces the first
      const TextEncoder encoder = TextEncoder::from_pretrained(
          context, folder / "model",
          {.pooling = Pooling::max, .normalised = normalised, .max_length = 7});
      encoder.save(folder / "encoder");
      const TextEncoder again = TextEncoder::from_pretrained(context, folder / "encoder");
      CHECK(again.pooling() == Pooling::max);
      CHECK(again.normalised() == normalised);
      CHECK(again.max_length() == 7);
      CHECK(bits(context, again.embed(views(texts))) == bits(context, encoder.embed(views(texts))));
      CHECK(std::filesystem::exists(folder / "encoder/2_Normalize") == normalised);
    }
    CHECK(has(read_text(folder / "encoder/config.json"),
              kind == models::BertKind::bert ? "\"BertModel\"" : "\"DistilBertModel\""));
    write_text(folder / "encoder/notes.txt", "mine");
    CHECK(id_of([&] { bare.save(folder / "encoder"); }) == "file.write");
    CHECK(read_text(folder / "encoder/notes.txt") == "mine");
    std::filesystem::remove_all(folder / "encoder");
    std::filesystem::remove_all(folder / "model");
  }
}

TEST_CASE("an encoder is trained by a loss of its vectors", "[unit]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  classifier(context).save(folder / "model");
  const TextEncoder encoder =
      TextEncoder::from_pretrained(context, folder / "model", {.normalised = true});
  const std::vector<std::int32_t> ids = encoder.tokenizer().encode("the lamp was warm").ids;
  const std::size_t lengths[] = {ids.size()};
  Tape tape(context);
  const Var vector = encoder(
      tape,
      tape.constant(Tensor::from(context, std::span<const std::int32_t>(ids), Shape{ids.size()}),
                    Sequences::from_lengths(context, lengths)));
  CHECK(bits(context, vector.value()) == bits(context, encoder.embed({"the lamp was warm"})));
  tape.backward(sum(tape, mul(tape, vector, tape.constant(random_tensor(context, {24}, "to")))));
  std::size_t reached = 0;
  for (const Parameter& parameter : nn::parameters(encoder)) {
    INFO(parameter.name);
    CHECK(parameter.gradient().defined() == !has(parameter.name, "pooler"));  // vectors pass it by
    reached += parameter.gradient().defined() ? 1 : 0;
  }
  CHECK(reached > 30);
}

TEST_CASE("what an encoder's folder asks for and soma lacks is named", "[unit]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  classifier(context).save(folder / "model");
  TextEncoder::from_pretrained(context, folder / "model", {.normalised = true})
      .save(folder / "encoder");
  const auto refused = [&](const char* file, const std::string& content) {
    const std::string path = folder / "encoder/" + file;
    const bool there = std::filesystem::exists(path);
    const std::string before = there ? read_text(path) : std::string();
    write_text(path, content);
    const std::string message =
        message_of([&] { TextEncoder::from_pretrained(context, folder / "encoder"); });
    if (there)
      write_text(path, before);
    else
      std::filesystem::remove(path);
    return message.find("[models.encoder_module]") != std::string::npos ? message : "";
  };
  const std::string first = R"({"type": "a.Transformer", "path": ""}, )",
                    second = R"({"type": "a.Pooling", "path": "1_Pooling"})";
  CHECK(has(refused("modules.json", "[" + first + second + R"(, {"type": "a.models.Dense"}])"),
            "Dense"));
  CHECK(has(refused("modules.json", "[" + second + "]"), "Pooling"));
  CHECK(
      has(refused("modules.json", R"([{"type": "a.Transformer", "path": "../x"}, )" + second + "]"),
          "../x"));
  CHECK_FALSE(refused("modules.json", "[" + first.substr(0, first.size() - 2) + "]").empty());
  CHECK_FALSE(refused("modules.json", "[").empty());
  CHECK_FALSE(refused("modules.json", "{}").empty());
  CHECK_FALSE(refused("modules.json", "[7]").empty());
  CHECK_FALSE(refused("modules.json", R"([{"type": 7}])").empty());
  CHECK(has(refused("1_Pooling/config.json", R"({"pooling_mode_lasttoken": true})"), "lasttoken"));
  CHECK(has(refused("1_Pooling/config.json",
                    R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true})"),
            "mean_tokens"));
  CHECK(has(refused("1_Pooling/config.json",
                    R"({"pooling_mode": "mean", "word_embedding_dimension": 25})"),
            "25"));
  CHECK(has(refused("config_sentence_transformers.json",
                    R"({"prompts": {"q": "query: "}, "default_prompt_name": "q"})"),
            "default_prompt_name"));
  CHECK(refused("config_sentence_transformers.json",
                R"({"prompts": {"q": "query: "}, "default_prompt_name": null})")
            .empty());
  CHECK(has(refused("sentence_bert_config.json", R"({"max_seq_length": 0})"), "max_seq_length"));
  CHECK(refused("sentence_bert_config.json", R"({"max_seq_length": 9, "do_lower_case": true})")
            .empty());  // the tokenizer writes small letters itself
  CHECK(id_of([&] {
          TextEncoder::from_pretrained(context, folder / "model", {.max_length = 33});
        }) == "models.config_value");
}

TEST_CASE("a classifier that reads the mean of a text trains, is saved and answers the same",
          "[unit]") {
  struct Row {
    std::string text;
    std::int64_t label;
  };
  auto context = make_context({.threads = 2});
  const TemporaryFolder folder;
  std::vector<Row> rows;
  for (const std::string& text : sentences(120))
    rows.push_back({text, text.find("dull") != std::string::npos ? 1 : 0});
  for (const Pooling pooling : {Pooling::mean, Pooling::max}) {
    models::TextClassifier model = classifier(context, pooling);
    train::Trainer trainer(context, model, {.epochs = 6, .learning_rate = 3e-3, .seed = 1});
    const auto batches = model.batches(rows, {.batch_sequences = 12});
    const train::Report report = trainer.fit(*batches, batches.get());
    CHECK(report.metric("accuracy") > 0.9);
    model.save(folder / "model");
    const auto again = models::TextClassifier::from_pretrained(context, folder / "model");
    CHECK(again.config().pooling == pooling);
    const std::vector<std::string> texts = sentences(9);
    const auto own = model.predict(views(texts)), read = again.predict(views(texts));
    for (std::size_t i = 0; i < texts.size(); ++i) CHECK(own[i].probability == read[i].probability);
    const auto first = models::TextClassifier::from_pretrained(context, folder / "model",
                                                               {.pooling = Pooling::first});
    CHECK(first.predict(texts[0]).probability != own[0].probability);
    // An encoder of this folder pools as the classifier does.
    CHECK(TextEncoder::from_pretrained(context, folder / "model").pooling() == pooling);
  }
  CHECK(id_of([&] { models::bert_config_from_json(R"({"soma_pooling": "sum"})"); }) ==
        "models.config_value");
}
