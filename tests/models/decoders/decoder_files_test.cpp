// Decoders beside transformers: folders of random models with the float64 numbers that
// make_cases.py has made.

#include <soma/soma.hpp>

#include <soma/autograd/losses.hpp>
#include <soma/decoders.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace {

using namespace soma;
using models::Decoder;
using models::DecoderKind;

const std::string cases_folder = SOMA_TEST_DECODERS;
const char* const cases[] = {"gpt2",         "gpt2_bare",    "llama_k1", "llama_k2", "llama_k4",
                             "llama_linear", "llama_llama3", "mistral",  "qwen2"};

// The numbers of expected.safetensors.
struct Expected {
  Expected(Context& context, const std::string& folder)
      : file(load_safetensors(context, folder + "/expected.safetensors")) {
    std::vector<std::size_t> lengths;
    for (const std::int32_t length : file.at("lengths").span<std::int32_t>())
      lengths.push_back(static_cast<std::size_t>(length));
    batch.inputs.sequences = Sequences::from_lengths(context, lengths, {});
    batch.inputs.rows = clone(context, file.at("ids"));
    batch.fields.push_back({"targets", clone(context, file.at("targets")), true});
  }
  double number(const std::string& name, std::size_t i = 0) const {
    const auto pair = file.at(name).span<float>();
    return static_cast<double>(pair[2 * i]) + static_cast<double>(pair[2 * i + 1]);
  }
  SafetensorsFile file;
  data::Batch batch;
};

Var loss_of(const Decoder& model, Tape& tape, const data::Batch& batch) {
  const Var hidden = model(tape, tape.constant(batch.inputs));
  return head_loss(tape, hidden, model.head_weight(),
                   tape.constant(batch.at("targets"), batch.inputs.sequences));
}

// The rows of a parameter's gradient, in order.
Tensor gradient_of(Context& context, const Parameter& parameter) {
  const Tensor all = soma_test::dense_gradient(context, parameter.var);
  return parameter.whole() ? all : all.slice(0, parameter.first_row, parameter.last_row);
}

// A folder's model.
struct Loaded {
  Loaded(Context& context, const std::string& folder)
      : file(models::load_decoder_config(folder)),
        model(nn::Scope{context, 7}, file.config),
        loaded(models::load_decoder(context, model, folder)) {}
  models::DecoderConfigFile file;
  Decoder model;
  models::LoadedDecoder loaded;
};

double loss_of_folder(Context& context, const std::string& folder, const data::Batch& batch) {
  const Loaded loaded(context, folder);
  Tape tape(context, {.record = false, .training = false});
  return static_cast<double>(loss_of(loaded.model, tape, batch).value().item<float>());
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace

TEST_CASE("losses, logits and gradients of decoders are those of float64", "[unit][models]") {
  auto context = make_context({.threads = 2});
  for (const std::string name : cases) {
    INFO(name);
    const std::string folder = cases_folder + "/" + name;
    const Expected expected(context, folder);
    const Loaded loaded(context, folder);
    const Decoder& model = loaded.model;
    Tape tape(context, {});
    const Var loss = loss_of(model, tape, expected.batch);
    // fp32 sums of some 100 products: errors of 1e-7 each, of which few add up.
    CHECK(std::fabs(static_cast<double>(loss.value().item<float>()) / expected.number("loss") - 1) <
          1e-6);
    tape.backward(loss);
    std::map<std::string, Tensor> gradients;
    for (const Parameter& parameter : nn::parameters(model))
      gradients.emplace(parameter.name, gradient_of(context, parameter));
    std::size_t compared = 0;
    for (const auto& [key, wanted] : expected.file.tensors) {
      if (key.rfind("gradient.", 0) != 0) continue;
      const std::string parameter = key.substr(9);
      INFO(parameter);
      REQUIRE(gradients.count(parameter) == 1);
      Tensor own = gradients.at(parameter);
      if (models::detail::is_turned(model.config.kind, parameter))
        own = contiguous(context, own.transpose(0, 1));
      // A vector is sums over all rows, which cancel.
      CHECK(soma_test::distance(context, own, wanted) < (wanted.rank() == 2 ? 2e-6 : 3e-6));
      ++compared;
    }
    CHECK(compared == gradients.size());
    Tape plain(context, {.record = false, .training = false});
    const Tensor logits =
        model.logits(plain, model(plain, plain.constant(expected.batch.inputs))).value();
    const Tensor& wanted = expected.file.at("logits");
    CHECK(soma_test::distance(context, logits.slice(0, 0, wanted.size(0)), wanted) < 2e-6);
  }
}

TEST_CASE("20 steps of AdamW on decoders have the losses of float64", "[unit][models]") {
  auto context = make_context({.threads = 2});
  for (const std::string name : cases) {
    INFO(name);
    const std::string folder = cases_folder + "/" + name;
    const Expected expected(context, folder);
    const Loaded loaded(context, folder);
    const Parameters parameters = nn::parameters(loaded.model);
    optim::AdamW optimizer(context, parameters, 0.01f);
    for (std::size_t step = 0; step < 20; ++step) {
      Tape tape(context, {});
      const Var loss = loss_of(loaded.model, tape, expected.batch);
      CHECK(std::fabs(static_cast<double>(loss.value().item<float>()) /
                          expected.number("losses", step) -
                      1) < 1e-6);
      clear_gradients(parameters);
      tape.backward(loss);
      optimizer.step({.rate = 1e-3});
    }
  }
}

TEST_CASE("every key of a decoder's config.json is honoured, harmless or refused",
          "[unit][models]") {
  using models::decoder_config_from_json;
  // The fields that a config.json decides, as text.
  const auto print_of = [](const models::DecoderConfigFile& file) {
    models::DecoderConfigFile bare{.config = file.config, .end_ids = file.end_ids};
    const nn::DecoderOptions& layer = file.config.layer;
    return to_json(bare) + std::to_string(layer.projection_bias) +
           std::to_string(layer.output_bias) + std::to_string(layer.inner_bias) +
           std::to_string(file.config.window) + std::to_string(file.config.tied);
  };
  for (const auto& [file, type] : {std::pair(ModelFile::gpt2_config, "gpt2"),
                                   {ModelFile::llama_config, "llama"},
                                   {ModelFile::llama_config, "mistral"},
                                   {ModelFile::qwen2_config, "qwen2"}}) {
    const std::string kind = type;
    const auto load = [&](const std::string& key, const std::string& value) {
      return print_of(decoder_config_from_json("{\"model_type\": \"" + kind + "\", \"" + key +
                                               "\": " + value + "}"));
    };
    const std::string before = load("never_heard_of", "[1, {}]");
    for_each_model_key(file, [&](const ModelKey& key) {
      const std::string name(key.key);
      INFO(kind << " " << name);
      bool refused = false, changed = false, named = false;
      for (const char* value : {"true", "7", "24", "64", "0.5", "\"other\"", "\"relu\"",
                                "[\"sliding_attention\"]", "{\"0\": \"a\"}"}) {
        std::string after;
        const std::string problem = soma_test::message_of([&] { after = load(name, value); });
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

TEST_CASE("a written config.json is read back, by old and new keys", "[unit][models]") {
  for (const std::string name : cases) {
    INFO(name);
    const models::DecoderConfigFile file = models::load_decoder_config(cases_folder + "/" + name);
    const std::string text = to_json(file);
    CHECK(to_json(models::decoder_config_from_json(text)) == text);
    if (file.config.kind == DecoderKind::gpt2) continue;
    // Each form alone says the same, and the new one wins.
    nlohmann::json older = nlohmann::json::parse(text), newer = older, both = older;
    older.erase("rope_parameters");
    newer.erase("rope_theta");
    newer.erase("rope_scaling");
    both["rope_theta"] = 77;
    // Without a base of its own the new form has the file's.
    nlohmann::json mixed = newer;
    mixed["rope_theta"] = mixed["rope_parameters"]["rope_theta"];
    mixed["rope_parameters"].erase("rope_theta");
    for (const nlohmann::json& form : {older, newer, both, mixed}) {
      const models::DecoderConfig config = models::decoder_config_from_json(form.dump()).config;
      CHECK(config.layer.rotary_base == file.config.layer.rotary_base);
      CHECK(config.layer.rotary_scaling.kind == file.config.layer.rotary_scaling.kind);
      CHECK(config.layer.rotary_scaling.factor == file.config.layer.rotary_scaling.factor);
    }
  }
}

TEST_CASE("what is read wrongly shows in the loss", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const soma_test::TemporaryFolder place;
  // The loss of a folder whose tensors or config.json were changed.
  const auto changed = [&](const std::string& name, const auto& change) {
    const std::string from = cases_folder + "/" + name, to = place / name;
    std::filesystem::create_directories(to);
    const Expected expected(context, from);
    nlohmann::json config = nlohmann::json::parse(content_of(from + "/config.json"));
    const SafetensorsFile file = load_safetensors(context, from + "/model.safetensors");
    StateDict tensors;
    for (const auto& [key, tensor] : file.tensors) tensors.set(key, clone(context, tensor));
    change(config, tensors);
    write(to + "/config.json", config.dump());
    save_safetensors(to + "/model.safetensors", tensors);
    return std::fabs(loss_of_folder(context, to, expected.batch) / expected.number("loss") - 1);
  };
  const auto same = [](nlohmann::json&, StateDict&) {};
  CHECK(changed("gpt2", same) < 1e-6);
  // A square matrix, whose shape does not tell that it is stored [in, out].
  CHECK(changed("gpt2", [&](nlohmann::json&, StateDict& tensors) {
          const Tensor& matrix = tensors.at("transformer.h.0.attn.c_proj.weight");
          copy(contiguous(context, matrix.transpose(0, 1)), matrix);
        }) > 1e-4);
  // Rows of q and k as pairs (2i, 2i + 1).
  CHECK(changed("llama_k2", [&](nlohmann::json&, StateDict& tensors) {
          for (const char* key : {"q_proj", "k_proj"}) {
            const Tensor& matrix =
                tensors.at("model.layers.0.self_attn." + std::string(key) + ".weight");
            const Tensor before = clone(context, matrix);
            for (std::size_t row = 0; row < matrix.size(0); ++row) {
              const std::size_t head = row / 4 * 4, pair = row % 4 / 2, half = row % 2;
              copy(before.slice(0, head + half * 2 + pair, head + half * 2 + pair + 1),
                   matrix.slice(0, row, row + 1));
            }
          }
        }) > 1e-4);
  const auto without = [](const char* key) {
    return [key](nlohmann::json& config, StateDict&) { config.erase(key); };
  };
  CHECK(changed("qwen2", without("rope_theta")) > 1e-4);
  CHECK(changed("llama_linear", without("rope_scaling")) > 1e-4);
  CHECK(changed("llama_llama3", without("rope_scaling")) > 1e-4);
}

TEST_CASE("a tied head may be repeated by a file, but not differ", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const soma_test::TemporaryFolder place;
  const std::string from = cases_folder + "/gpt2", to = place / "tied";
  std::filesystem::create_directories(to);
  std::filesystem::copy_file(from + "/config.json", to + "/config.json");
  const SafetensorsFile file = load_safetensors(context, from + "/model.safetensors");
  StateDict tensors;
  for (const auto& [key, tensor] : file.tensors) tensors.set(key, tensor);
  const Tensor head = clone(context, tensors.at("transformer.wte.weight"));
  tensors.set("lm_head.weight", head);
  save_safetensors(to + "/model.safetensors", tensors);
  const Loaded loaded(context, to);
  CHECK(loaded.loaded.passed_over == std::vector<std::string>{"lm_head.weight"});
  // It is one parameter, and is stored once.
  models::save_decoder(place / "saved", context, loaded.model, loaded.file);
  CHECK_FALSE(load_safetensors(context, place / "saved" + "/model.safetensors")
                  .tensors.contains("lm_head.weight"));
  head.mutable_data<float>()[5] += 1;
  save_safetensors(to + "/model.safetensors", tensors);
  CHECK(soma_test::id_of([&] { Loaded(context, to); }) == "models.config_value");
}

TEST_CASE("a table with more rows than tokens keeps them", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const soma_test::TemporaryFolder place;
  models::DecoderConfig config = models::DecoderConfig::of(DecoderKind::qwen2);
  config.vocabulary = 151936;
  config.layers = 1;
  config.layer.width = 8;
  config.layer.heads = 2;
  config.layer.key_value_heads = 1;
  config.layer.inner = 4;
  const Decoder model(nn::Scope{context, 3}, config);
  models::save_decoder(place / "large", context, model, {.config = config});
  const Loaded loaded(context, place / "large");
  CHECK(loaded.file.config.vocabulary == 151936);
  CHECK(loaded.model.tokens.weight.shape() == Shape{151936, 8});
}
