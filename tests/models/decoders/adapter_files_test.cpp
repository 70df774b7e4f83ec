// Adapters beside PEFT: folders of adapters of small random models, with the float64 numbers that
// make_adapters.py has made; files, refusals and merging.

#include <soma/soma.hpp>

#include <soma/decoders.hpp>
#include <soma/nn.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace {

using namespace soma;
using models::Decoder;

const std::string decoders = SOMA_TEST_DECODERS;
// Names of adapters and of their bases.
const std::pair<const char*, const char*> cases[] = {{"gpt2", "gpt2"},
                                                     {"gpt2_all", "gpt2"},
                                                     {"llama", "llama_k2"},
                                                     {"llama_all", "llama_k1"},
                                                     {"llama_one", "llama_k4"}};

struct Base {
  Base(Context& context, const std::string& name)
      : file(models::load_decoder_config(decoders + "/" + name)),
        model(nn::Scope{context, 7}, file.config) {
    models::load_decoder(context, model, decoders + "/" + name);
    const SafetensorsFile expected =
        load_safetensors(context, decoders + "/" + name + "/expected.safetensors");
    std::vector<std::size_t> lengths;
    for (const std::int32_t length : expected.at("lengths").span<std::int32_t>())
      lengths.push_back(static_cast<std::size_t>(length));
    batch.inputs.sequences = Sequences::from_lengths(context, lengths, {});
    batch.inputs.rows = clone(context, expected.at("ids"));
    batch.fields.push_back({"targets", clone(context, expected.at("targets")), true});
  }
  Var loss(Tape& tape) const {
    const Var hidden = model(tape, tape.constant(batch.inputs));
    return head_loss(tape, hidden, model.head_weight(),
                     tape.constant(batch.at("targets"), batch.inputs.sequences));
  }
  double loss_value(Context& context) const {
    Tape tape(context, {.record = false, .training = false});
    return static_cast<double>(loss(tape).value().item<float>());
  }
  models::DecoderConfigFile file;
  Decoder model;
  data::Batch batch;
};

std::string folder_of(const std::string& adapter) { return decoders + "/adapter_" + adapter; }

double number(const SafetensorsFile& file, const std::string& name) {
  const auto pair = file.at(name).span<float>();
  return static_cast<double>(pair[0]) + static_cast<double>(pair[1]);
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// A copy of an adapter's folder whose configuration has another value.
std::string changed(const soma_test::TemporaryFolder& folder, const std::string& adapter,
                    const std::string& key, const nlohmann::json& value) {
  const std::string to = folder / "changed";
  std::filesystem::remove_all(to);
  std::filesystem::copy(folder_of(adapter), to);
  nlohmann::json config = nlohmann::json::parse(content_of(to + "/adapter_config.json"));
  config[key] = value;
  write(to + "/adapter_config.json", config.dump());
  return to;
}

}  // namespace

TEST_CASE("losses, logits and gradients of adapters are those of float64", "[unit][models]") {
  auto context = make_context({.threads = 2});
  for (const auto& [adapter, base_name] : cases) {
    INFO(adapter);
    const Base base(context, base_name);
    nn::freeze(base.model);
    models::load_adapter(context, base.model, {context, 1}, folder_of(adapter));
    const SafetensorsFile expected =
        load_safetensors(context, folder_of(adapter) + "/expected.safetensors");
    Tape tape(context, {});
    const Var loss = base.loss(tape);
    // As for decoders without adapters: fp32 sums of some 100 products.
    CHECK(std::fabs(static_cast<double>(loss.value().item<float>()) / number(expected, "loss") -
                    1) < 1e-6);
    tape.backward(loss);
    double worst = 0;
    std::size_t count = 0;
    for (const Parameter& parameter : nn::parameters(base.model)) {
      CHECK((parameter.role == ParameterRole::adapter) != parameter.var.frozen());
      if (parameter.var.frozen()) {
        CHECK_FALSE(parameter.var.gradient().defined());
        continue;
      }
      ++count;
      worst = std::max(
          worst, soma_test::distance(context, soma_test::dense_gradient(context, parameter.var),
                                     expected.at("gradient.base_model.model." + parameter.name)));
    }
    CHECK(worst < 2e-6);
    CHECK(count + 2 == expected.tensors.size());
    Tape plain(context, {.record = false, .training = false});
    const Tensor logits =
        base.model.logits(plain, base.model(plain, plain.constant(base.batch.inputs))).value();
    const Tensor& wanted = expected.at("logits");
    CHECK(soma_test::distance(context, logits.slice(0, 0, wanted.size(0)), wanted) < 2e-6);
  }
}

TEST_CASE("an adapter's folder comes back as PEFT wrote it", "[unit][models]") {
  auto context = make_context({.threads = 1});
  soma_test::TemporaryFolder folder;
  for (const auto& [adapter, base_name] : cases) {
    INFO(adapter);
    const Base base(context, base_name);
    const models::AdapterConfig config =
        models::load_adapter(context, base.model, {context, 1}, folder_of(adapter));
    const std::string to = folder / adapter;
    models::save_adapter(to, nn::parameters(base.model), config);
    const SafetensorsFile before = load_safetensors(
                              context, folder_of(adapter) + "/adapter_model.safetensors"),
                          after = load_safetensors(context, to + "/adapter_model.safetensors");
    CHECK(before.tensors.size() == after.tensors.size());
    for (const auto& [name, tensor] : before.tensors)
      CHECK(soma_test::bits(context, after.at(name)) == soma_test::bits(context, tensor));
    const auto json = [](const std::string& where) {
      return nlohmann::json::parse(content_of(where + "/adapter_config.json"));
    };
    const nlohmann::json old = json(folder_of(adapter)), now = json(to);
    for (const auto& [key, value] : now.items()) {
      INFO(key);
      // fan_in_fan_out is what the caller knows of the base.
      CHECK(old.at(key) == value);
    }
  }
}

TEST_CASE("merged weights compute as base and adapter", "[unit][models]") {
  auto context = make_context({.threads = 2});
  for (const auto& [adapter, base_name] : cases) {
    INFO(adapter);
    const Base base(context, base_name);
    models::load_adapter(context, base.model, {context, 1}, folder_of(adapter));
    const double apart = base.loss_value(context);
    const double difference = nn::merge(context, nn::products(base.model), DType::fp32);
    CHECK(difference > 0);
    CHECK(difference < 1.2e-7);  // two roundings of fp32, 6e-8 each at most
    CHECK_FALSE(nn::has_adapters(nn::products(base.model)));
    CHECK(std::fabs(base.loss_value(context) / apart - 1) < 1e-6);
    // And rounded to bf16, which has 8 bits: between an eighth of the largest error and all of it.
    const Base narrow(context, base_name);
    models::load_adapter(context, narrow.model, {context, 1}, folder_of(adapter));
    const double rounded = nn::merge(context, nn::products(narrow.model), DType::bf16);
    CHECK(rounded > 0x1p-12);
    CHECK(rounded < 0x1p-8);
  }
  const Base base(context, "gpt2");
  CHECK(soma_test::id_of([&] { nn::merge(context, nn::products(base.model), DType::fp32); }) ==
        "operator.value");
  nn::adapt(base.model, {context, 1});
  CHECK(soma_test::id_of([&] { nn::merge(context, nn::products(base.model), DType::fp8_e4m3); }) ==
        "operator.value");
}

TEST_CASE("adapters that cannot be honoured are refused", "[unit][models]") {
  auto context = make_context({.threads = 1});
  soma_test::TemporaryFolder folder;
  const auto error = [&](const std::string& from, const std::string& base_name = "gpt2") {
    const Base base(context, base_name);
    const auto load = [&] { models::load_adapter(context, base.model, {context, 1}, from); };
    const std::pair result(soma_test::id_of(load), soma_test::message_of(load));
    CHECK_FALSE(nn::has_adapters(nn::products(base.model)));
    return result;
  };
  const std::pair<const char*, nlohmann::json> refused[] = {
      {"peft_type", "IA3"},
      {"bias", "all"},
      {"use_dora", true},
      {"modules_to_save", {"lm_head"}},
      {"rank_pattern", {{"c_attn", 2}}},
      {"alpha_pattern", {{"c_attn", 2}}},
      {"layers_to_transform", {0}},
      {"lora_bias", true},
      {"trainable_token_indices", {1, 2}},
      {"init_lora_weights", "pissa"},
      {"init_lora_weights", "olora"},
  };
  for (const auto& [key, value] : refused) {
    INFO(key);
    const auto [id, message] = error(changed(folder, "gpt2", key, value));
    CHECK(id == "models.config_value");
    CHECK(message.find(key) != std::string::npos);
  }
  for_each_model_key(ModelFile::adapter_config, [&](const ModelKey& key) {
    INFO(key.key);
    if (key.use == KeyUse::refused)
      CHECK(error(changed(folder, "gpt2", std::string(key.key), "x")).first ==
            "models.config_value");
  });
  const Base base(context, "gpt2");
  CHECK(models::adapter_config_from_json(R"({"peft_type": "LORA", "init_lora_weights": "gaussian",
                                             "use_dora": false, "r": 3})",
                                         "x")
            .lora.rank == 3);

  // The adapter of another model: both shapes are named.
  const auto [id, message] = error(folder_of("llama"), "llama_k1");
  CHECK(id == "state.shape");
  CHECK(message.find("v_proj") != std::string::npos);
  CHECK(message.find("[8, 4]") != std::string::npos);
  CHECK(error(folder_of("llama"), "gpt2").first == "state.extra_name");
  CHECK(error(changed(folder, "gpt2", "r", 5)).first == "state.shape");
  const std::string without = changed(folder, "gpt2", "r", 4);
  std::filesystem::remove(without + "/adapter_model.safetensors");
  CHECK(error(without).first == "models.weights_file");
  CHECK(error(folder / "nothing").first == "file.read");

  // A matrix without its partner, and one of an embedding.
  const SafetensorsFile whole =
      load_safetensors(context, folder_of("gpt2") + "/adapter_model.safetensors");
  for (const auto& [drop, add, wanted] :
       {std::tuple<std::string, std::string, std::string>{"h.1.attn.c_attn.lora_B.weight", "",
                                                          "state.missing_name"},
        {"", "base_model.model.transformer.wte.lora_embedding_A", "state.extra_name"},
        {"", "base_model.model.transformer.wte.lora_A.weight", "state.extra_name"}}) {
    StateDict tensors;
    for (const auto& [name, tensor] : whole.tensors)
      if (drop.empty() || !name.ends_with(drop)) tensors.set(name, clone(context, tensor));
    if (!add.empty()) tensors.set(add, Tensor::zeros(context, {4, 96}));
    const std::string to = changed(folder, "gpt2", "r", 4);
    save_safetensors(to + "/adapter_model.safetensors", tensors);
    CHECK(error(to).first == wanted);
  }

  // Two at once, names of nothing, and numbers out of range.
  models::load_adapter(context, base.model, {context, 1}, folder_of("gpt2"));
  CHECK(soma_test::id_of([&] {
          models::load_adapter(context, base.model, {context, 1}, folder_of("gpt2_all"));
        }) == "operator.value");
  const Base other(context, "gpt2");
  for (const nn::LoraOptions& options : {nn::LoraOptions{.targets = {"q_proj"}},
                                         {.targets = {"wte"}},
                                         {.targets = {"c_attn", ""}},
                                         {.targets = {}},
                                         {.rank = 0},
                                         {.alpha = 0},
                                         {.dropout = 1}})
    CHECK(soma_test::id_of([&] {
            nn::adapt(other.model, {context, 1}, options);
          }) == (options.dropout == 1 ? "random.probability" : "operator.value"));
  const std::string embedding = soma_test::message_of([&] {
    nn::adapt(other.model, {context, 1}, {.targets = {"wte"}});
  });
  CHECK(embedding.find("no linear layer") != std::string::npos);
  CHECK(embedding.find("c_attn") != std::string::npos);
}
