// Folders as the usual libraries write them: each key of config.json, DistilBERT, and weights that
// are not read.

#include <soma/base/model_keys.hpp>
#include <soma/models.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using namespace soma_test;
using models::bert_config_from_json;
using models::TextClassifier;

namespace {

constexpr std::size_t vocabulary = 30, width = 12, heads = 3, inner = 20, positions = 16,
                      layers = 2;

// A config.json as the usual library writes one of a DistilBERT.
std::string distilbert_config(std::string_view activation = "gelu") {
  return R"({"activation": ")" + std::string(activation) +
         R"(", "architectures": ["DistilBertForSequenceClassification"], "attention_dropout": 0.1,
  "dim": 12, "dropout": 0.1, "hidden_dim": 20, "initializer_range": 0.02,
  "max_position_embeddings": 16, "model_type": "distilbert", "n_heads": 3, "n_layers": 2,
  "pad_token_id": 0, "problem_type": "single_label_classification", "qa_dropout": 0.1,
  "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": false, "tie_weights_": true,
  "torch_dtype": "float32", "transformers_version": "4.44.2", "vocab_size": 30})";
}

// Weights of such a model under the names of its files.
StateDict distilbert_weights(Context& context) {
  StateDict state;
  std::uint64_t index = 0;
  const auto add = [&](const std::string& name, const Shape& shape, float middle, float range) {
    const Tensor tensor = Tensor::empty(context, shape, DType::fp32);
    for (std::size_t i = 0; i < tensor.elements(); ++i) {
      const std::uint32_t word = random_word({.seed = 7, .stream = 1, .step = 0, .index = index++});
      tensor.mutable_data<float>()[i] = middle + range * (static_cast<float>(word) * 0x1p-31f - 1);
    }
    state.set(name, tensor);
  };
  const auto linear = [&](const std::string& name, std::size_t out, std::size_t in) {
    add(name + ".weight", Shape{out, in}, 0, 0.5f);
    add(name + ".bias", Shape{out}, 0, 0.5f);
  };
  const auto norm = [&](const std::string& name) {
    add(name + ".weight", Shape{width}, 1, 0.5f);
    add(name + ".bias", Shape{width}, 0, 0.5f);
  };
  const std::string base = "distilbert.";
  add(base + "embeddings.word_embeddings.weight", Shape{vocabulary, width}, 0, 1);
  add(base + "embeddings.position_embeddings.weight", Shape{positions, width}, 0, 1);
  norm(base + "embeddings.LayerNorm");
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string layer = base + "transformer.layer." + std::to_string(i) + ".";
    for (const char* part : {"q_lin", "k_lin", "v_lin", "out_lin"})
      linear(layer + "attention." + part, width, width);
    norm(layer + "sa_layer_norm");
    linear(layer + "ffn.lin1", inner, width);
    linear(layer + "ffn.lin2", width, inner);
    norm(layer + "output_layer_norm");
  }
  linear("pre_classifier", width, width);
  linear("classifier", 2, width);
  return state;
}

using Rows = std::vector<std::vector<double>>;

// The published computation, in double and in plain loops, of one sequence.
class PlainDistilbert {
 public:
  PlainDistilbert(const StateDict& state, double (*activation)(double))
      : state_(state), activation_(activation) {}

  std::vector<double> logits(const std::vector<std::int32_t>& ids) const {
    Rows x;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::vector<double> row;
      for (std::size_t j = 0; j < width; ++j)
        row.push_back(at("distilbert.embeddings.word_embeddings.weight",
                         static_cast<std::size_t>(ids[i]) * width + j) +
                      at("distilbert.embeddings.position_embeddings.weight", i * width + j));
      x.push_back(row);
    }
    x = norm("distilbert.embeddings.LayerNorm", x);
    for (std::size_t i = 0; i < layers; ++i) {
      const std::string layer = "distilbert.transformer.layer." + std::to_string(i) + ".";
      x = norm(layer + "sa_layer_norm",
               sum(linear(layer + "attention.out_lin", attention(layer + "attention.", x)), x));
      Rows h = linear(layer + "ffn.lin1", x);
      for (auto& row : h)
        for (double& value : row) value = activation_(value);
      x = norm(layer + "output_layer_norm", sum(linear(layer + "ffn.lin2", h), x));
    }
    Rows first = linear("pre_classifier", {x[0]});
    for (double& value : first[0]) value = std::max(value, 0.0);
    return linear("classifier", first)[0];
  }

 private:
  double at(const std::string& name, std::size_t i) const {
    return static_cast<double>(state_.at(name).span<float>()[i]);
  }
  static Rows sum(const Rows& a, const Rows& b) {
    Rows c = a;
    for (std::size_t i = 0; i < a.size(); ++i)
      for (std::size_t j = 0; j < a[i].size(); ++j) c[i][j] += b[i][j];
    return c;
  }
  Rows linear(const std::string& name, const Rows& x) const {
    Rows y;
    const std::size_t out = state_.at(name + ".bias").elements();
    for (const auto& row : x) {
      std::vector<double> result;
      for (std::size_t i = 0; i < out; ++i) {
        double value = at(name + ".bias", i);
        for (std::size_t j = 0; j < row.size(); ++j)
          value += at(name + ".weight", i * row.size() + j) * row[j];
        result.push_back(value);
      }
      y.push_back(result);
    }
    return y;
  }
  Rows norm(const std::string& name, const Rows& x) const {
    Rows y = x;
    for (auto& row : y) {
      double mean = 0, variance = 0;
      for (const double value : row) mean += value / static_cast<double>(width);
      for (const double value : row)
        variance += (value - mean) * (value - mean) / static_cast<double>(width);
      for (std::size_t j = 0; j < width; ++j)
        row[j] = (row[j] - mean) / std::sqrt(variance + 1e-12) * at(name + ".weight", j) +
                 at(name + ".bias", j);
    }
    return y;
  }
  Rows attention(const std::string& name, const Rows& x) const {
    const Rows q = linear(name + "q_lin", x), k = linear(name + "k_lin", x),
               v = linear(name + "v_lin", x);
    const std::size_t size = width / heads;
    Rows y(x.size(), std::vector<double>(width));
    for (std::size_t head = 0; head < heads; ++head)
      for (std::size_t i = 0; i < x.size(); ++i) {
        std::vector<double> weights;
        double total = 0;
        for (std::size_t j = 0; j < x.size(); ++j) {
          double score = 0;
          for (std::size_t c = head * size; c < (head + 1) * size; ++c) score += q[i][c] * k[j][c];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
          total += weights.back();
        }
        for (std::size_t j = 0; j < x.size(); ++j)
          for (std::size_t c = head * size; c < (head + 1) * size; ++c)
            y[i][c] += weights[j] / total * v[j][c];
      }
    return y;
  }

  const StateDict& state_;
  double (*activation_)(double);
};

std::string vocabulary_text() {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (std::size_t i = 5; i < vocabulary; ++i) text += "w" + std::to_string(i) + "\n";
  return text;
}

// The model's outputs for a text before the softmax.
std::vector<float> logits_of(Context& context, const TextClassifier& model, std::string_view text) {
  std::vector<std::int32_t> ids;
  model.tokenizer().encode_ids(text, model.max_length(), ids);
  Tape tape(context, {.record = false, .training = false});
  const std::vector<std::vector<std::int32_t>> lists{ids};
  const Tensor logits =
      model.model()(tape, tape.constant(make_ragged<std::int32_t>(context, lists))).value();
  return {logits.span<float>().begin(), logits.span<float>().end()};
}

std::string print_of(const models::BertConfigFile& file) {
  return to_json(file) + (file.other_task ? " other" : "") + file.tokenizer_class;
}

}  // namespace

TEST_CASE("every key of a config.json is honoured, harmless or refused", "[unit][models]") {
  for (const auto file : {ModelFile::bert_config, ModelFile::distilbert_config}) {
    const std::string type = file == ModelFile::bert_config ? "bert" : "distilbert";
    const auto load = [&](const std::string& key, const std::string& value) {
      return print_of(bert_config_from_json("{\"model_type\": \"" + type + "\", \"" + key +
                                            "\": " + value + "}"));
    };
    const std::string before = load("never_heard_of", "[1, {}]");
    for_each_model_key(file, [&](const ModelKey& key) {
      const std::string name(key.key);
      INFO(type << " " << name);
      bool refused = false, changed = false, named = false;
      for (const char* value :
           {"true", "7", "24", "0.5", "\"other\"", "\"relu\"", "\"regression\"",
            "[\"BertForTokenClassification\"]", "{\"0\": \"a\", \"1\": \"b\"}"}) {
        std::string after;
        const std::string problem = message_of([&] { after = load(name, value); });
        const bool is_error = problem.find("[models.config_") != std::string::npos;
        refused = refused || is_error;
        named = named || (is_error && problem.find(name) != std::string::npos);
        changed = changed || (!is_error && after != before);
      }
      if (key.use == KeyUse::harmless) CHECK_FALSE((refused || changed));
      if (key.use == KeyUse::honoured) CHECK((refused || changed));
      if (key.use != KeyUse::refused) return;
      CHECK(named);
      for (const std::string& value :
           {std::string("null"), std::string("false"), std::string("{}"), std::string("[]"),
            key.neutral.empty() ? "\"\"" : std::string(key.neutral)})
        CHECK(load(name, value) == before);
    });
  }
}

TEST_CASE("a DistilBERT's folder gives the published computation's logits, and comes back",
          "[unit][models]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const StateDict state = distilbert_weights(context);
  const std::string source = folder / "source";
  std::filesystem::create_directory(source);
  save_safetensors(source + "/model.safetensors", state, {{"format", "pt"}});
  write_text(source + "/vocab.txt", vocabulary_text());
  write_text(source + "/tokenizer_config.json",
             R"({"tokenizer_class": "DistilBertTokenizer", "do_lower_case": true})");
  struct Case {
    const char* name;
    double (*function)(double);
  };
  const Case cases[] = {
      {"relu", [](double x) { return std::max(x, 0.0); }},
      {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
      {"quick_gelu", [](double x) { return x / (1 + std::exp(-1.702 * x)); }},
      {"mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"gelu", [](double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0)); }},
  };
  const std::string_view texts[] = {"w5 w29 w17", "", "w9 w9 w9 w10 w11 w12 w13 w14 w6"};
  for (const auto& [activation, function] : cases) {
    write_text(source + "/config.json", distilbert_config(activation));
    const auto model = TextClassifier::from_pretrained(context, source);
    CHECK(model.fresh().empty());
    CHECK(model.max_length() == positions);
    const PlainDistilbert plain(state, function);
    for (const std::string_view text : texts) {
      const std::vector<double> wanted = plain.logits(model.tokenizer().encode(text).ids);
      const std::vector<float> given = logits_of(context, model, text);
      for (std::size_t i = 0; i < 2; ++i) {
        INFO(activation << " " << text << ": " << given[i] << ", wanted " << wanted[i]);
        // Some hundred roundings of numbers of the order of 1, each let through by norms that
        // multiply by a few at most.
        CHECK(std::fabs(static_cast<double>(given[i]) - wanted[i]) <= 1000 * 0x1p-24);
      }
    }
  }

  // The way back: the same names and shapes, and the same bits when it is read again.
  const auto model = TextClassifier::from_pretrained(context, source);
  model.save(folder / "saved");
  const SafetensorsFile saved = load_safetensors(context, folder / "saved/model.safetensors");
  CHECK(saved.tensors.size() == state.size());
  for (const auto& [name, tensor] : state) {
    INFO(name);
    REQUIRE(saved.tensors.contains(name));
    CHECK(bits(context, saved.tensors.at(name)) == bits(context, tensor));
  }
  CHECK(print_of(models::load_bert_config(folder / "saved")) ==
        print_of(models::load_bert_config(source)));
  CHECK_THAT(read_text(folder / "saved/config.json"),
             contains("\"DistilBertForSequenceClassification\""));
  const auto again = TextClassifier::from_pretrained(context, folder / "saved");
  for (const std::string_view text : texts)
    CHECK(logits_of(context, again, text) == logits_of(context, model, text));

  // A pretrained model without a classifier, and without the prefix: the head is new.
  StateDict bare;
  for (const auto& [name, tensor] : state)
    if (name.starts_with("distilbert.")) bare.set(name.substr(11), tensor);
  bare.set("vocab_projector.bias", Tensor::zeros(context, Shape{vocabulary}));
  save_safetensors(source + "/model.safetensors", bare);
  const auto fresh = TextClassifier::from_pretrained(context, source);
  CHECK(fresh.fresh() == std::vector<std::string>{"classifier.bias", "classifier.weight",
                                                  "pre_classifier.bias", "pre_classifier.weight"});
  // BERT's types, pooler and dropout are not there.
  for (const Parameter& parameter : fresh.parameters())
    CHECK(parameter.name.find("token_type") == std::string::npos);
  CHECK(fresh.model().bert.encoder.layers[0].attention.output_dropout.probability == 0);
  CHECK(fresh.model().bert.encoder.layers[0].outer_dropout.probability == 0.1f);
  CHECK(fresh.model().dropout.probability == 0.2f);
}

TEST_CASE("weights that are not read are named, with what converts them", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const std::string path = folder.path();
  write_text(folder / "config.json", distilbert_config());
  write_text(folder / "vocab.txt", vocabulary_text());
  const auto refusal = [&] {
    return message_of([&] { TextClassifier::from_pretrained(context, path); });
  };
  CHECK_THAT(refusal(), contains("[file.read]"));
  for (const char* other : {"pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"}) {
    write_text(folder / other, "x");
    CHECK_THAT(refusal(), contains(("which holds \"" + std::string(other) +
                                    "\" and no model.safetensors, wanted model.safetensors; this "
                                    "writes it: python3 -c")
                                       .c_str()));
    CHECK_THAT(refusal(), contains("[models.weights_file]"));
    std::filesystem::remove(folder / other);
  }

  // 64 bits: each number takes two of 32 here, so that sizes stay right.
  const StateDict state = distilbert_weights(context);
  save_safetensors(folder / "model.safetensors", state);
  std::string content = read_text(folder / "model.safetensors");
  const std::string_view part = "\"F32\",\"shape\":[30,12]";
  REQUIRE(content.find(part) != std::string::npos);
  write_text(folder / "model.safetensors",
             content.replace(content.find(part), part.size(), "\"F64\",\"shape\":[30,6] "));
  CHECK_THAT(refusal(), contains("\"distilbert.embeddings.word_embeddings.weight\""));
  CHECK_THAT(refusal(), contains("is F64, wanted F32, F16, BF16"));
  CHECK_THAT(refusal(), contains("[safetensors.dtype]"));

  // Names under a prefix that is not known: what the file has is shown.
  StateDict prefixed, others;
  for (const auto& [name, tensor] : state) {
    prefixed.set("module." + name, tensor);
    others.set("roberta." + std::to_string(others.size()), tensor);
  }
  save_safetensors(folder / "model.safetensors", prefixed);
  CHECK_THAT(refusal(), contains("names without the prefix \"module.\", as \"module.distilbert."));
  save_safetensors(folder / "model.safetensors", others);
  CHECK_THAT(refusal(), contains("the file has \"roberta.0\", \"roberta.1\", \"roberta.10\" and "));
  CHECK_THAT(refusal(), contains("[state.missing_name]"));
  // The weights of the other kind.
  save_safetensors(folder / "model.safetensors", state);
  write_text(folder / "config.json",
             R"({"model_type": "bert", "vocab_size": 30, "hidden_size": 12, "num_hidden_layers": 2,
                 "num_attention_heads": 3, "intermediate_size": 20,
                 "max_position_embeddings": 16})");
  CHECK_THAT(refusal(), contains("the file has \"distilbert.embeddings.LayerNorm.bias\""));
}
