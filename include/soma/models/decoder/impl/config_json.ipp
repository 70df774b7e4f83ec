#pragma once
// The functions of decoder/config_json.hpp.

#include <soma/models/decoder/config_json.hpp>

#include <soma/base/error.hpp>
#include <soma/base/fixed.hpp>
#include <soma/base/model_keys.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/models/model_files.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

inline constexpr std::uint64_t most_width = std::uint64_t{1} << 20;

// An object of rotary settings: rope_scaling of version 4, rope_parameters of version 5.
class DecoderConfigReader::Rotary : public ConfigReader {
 public:
  Rotary(const ConfigReader& file, const Json& object, std::string_view name)
      : ConfigReader(file, object, name) {
    if (!object.is_object()) file.bad_type("rotary settings", object, "an object");
  }

  void read(nn::DecoderOptions& layer) const {
    constexpr std::string_view known[] = {"rope_type",
                                          "type",
                                          "rope_theta",
                                          "factor",
                                          "low_freq_factor",
                                          "high_freq_factor",
                                          "partial_rotary_factor",
                                          "original_max_position_embeddings"};
    layer.rotary_base = at_least_one("rope_theta", layer.rotary_base);
    if (number("partial_rotary_factor", 1) != 1)
      bad_value("partial_rotary_factor", shown(*find("partial_rotary_factor")), "1");
    const Json* type = text("rope_type");
    if (type == nullptr) type = text("type");
    if (type == nullptr || *type == "default") return;
    const bool linear = *type == "linear";
    if (!linear && *type != "llama3")
      bad_value("rope_type", soma::quoted(type->get_ref<const std::string&>()),
                "\"default\", \"linear\" or \"llama3\"");
    for (const auto& [key, value] : root_.items())
      if (std::find(std::begin(known), std::end(known), key) == std::end(known) && !value.is_null())
        bad_value(key, shown(value), "no such key for this rope_type");
    RotaryScaling& scaling = layer.rotary_scaling;
    scaling.kind = linear ? RotaryScaling::Kind::linear : RotaryScaling::Kind::llama3;
    need("factor");
    scaling.factor = at_least_one("factor", 1);
    if (linear) return;
    for (const char* key :
         {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
      need(key);
    scaling.low_frequency_factor = positive("low_freq_factor", 1);
    scaling.high_frequency_factor = positive("high_freq_factor", 4);
    if (scaling.high_frequency_factor <= scaling.low_frequency_factor)
      bad_value("high_freq_factor", shown(*find("high_freq_factor")), "above low_freq_factor");
    scaling.original_positions =
        size("original_max_position_embeddings", 1, std::uint64_t{1} << 30);
  }

 private:
  void need(const char* key) const {
    if (find(key) == nullptr) bad_value(key, "missing", "a number");
  }
  float at_least_one(const char* key, float otherwise) const {
    const float value = positive(key, otherwise);
    if (value < 1) bad_value(key, shown(*find(key)), "at least 1");
    return value;
  }
};

SOMA_INLINE DecoderConfigFile DecoderConfigReader::read() const {
  const DecoderKind kind = check_kind();
  DecoderConfigFile file{.config = DecoderConfig::of(kind)};
  DecoderConfig& config = file.config;
  config.vocabulary = size("vocab_size", config.vocabulary, (std::uint64_t{1} << 31) - 1);
  config.layer.standard_deviation = positive("initializer_range", config.layer.standard_deviation);
  config.tied = flag("tie_word_embeddings", config.tied);
  if (kind == DecoderKind::gpt2)
    read_gpt2(config);
  else
    read_llama(config);
  file.end_ids = end_ids();
  file.text = root_.dump(-1, ' ', false, Json::error_handler_t::replace);
  return file;
}

SOMA_INLINE DecoderKind DecoderConfigReader::check_kind() const {
  const Json* type = text("model_type");
  const auto found = type == nullptr
                         ? std::end(decoder_kind_names)
                         : std::find(std::begin(decoder_kind_names), std::end(decoder_kind_names),
                                     type->get_ref<const std::string&>());
  if (found == std::end(decoder_kind_names))
    bad_value("model_type",
              type == nullptr ? "none" : soma::quoted(type->get_ref<const std::string&>()),
              "\"gpt2\", \"llama\", \"mistral\" or \"qwen2\"");
  const auto kind = static_cast<DecoderKind>(found - std::begin(decoder_kind_names));
  check_keys(kind == DecoderKind::gpt2    ? ModelFile::gpt2_config
             : kind == DecoderKind::qwen2 ? ModelFile::qwen2_config
                                          : ModelFile::llama_config);
  return kind;
}

SOMA_INLINE void DecoderConfigReader::read_gpt2(DecoderConfig& config) const {
  nn::DecoderOptions& layer = config.layer;
  layer.width = size("n_embd", layer.width, most_width);
  config.layers = size("n_layer", config.layers, std::uint64_t{1} << 16);
  layer.heads = size("n_head", layer.heads, std::uint64_t{1} << 16);
  layer.inner = size("n_inner", 4 * layer.width, 4 * most_width);
  config.positions = size("n_positions", config.positions, most_width);
  layer.activation = activation("activation_function", layer.activation);
  layer.dropout = probability("resid_pdrop", layer.dropout);
  config.embedding_dropout = probability("embd_pdrop", config.embedding_dropout);
  layer.attention_dropout = probability("attn_pdrop", layer.attention_dropout);
  layer.epsilon = positive("layer_norm_epsilon", layer.epsilon);
  if (!flag("scale_attn_weights", true)) bad_value("scale_attn_weights", "false", "true");
  if (layer.width % layer.heads != 0)
    bad_value("n_head", std::to_string(layer.heads),
              "a divisor of n_embd, " + std::to_string(layer.width));
}

SOMA_INLINE void DecoderConfigReader::read_llama(DecoderConfig& config) const {
  nn::DecoderOptions& layer = config.layer;
  layer.width = size("hidden_size", layer.width, most_width);
  layer.inner = size("intermediate_size", layer.inner, 4 * most_width);
  config.layers = size("num_hidden_layers", config.layers, std::uint64_t{1} << 16);
  layer.heads = size("num_attention_heads", layer.heads, std::uint64_t{1} << 16);
  // A missing number is the family's, and null says: as many as heads.
  const bool is_null = root_.contains("num_key_value_heads");
  layer.key_value_heads =
      size("num_key_value_heads", is_null ? 0 : layer.key_value_heads, std::uint64_t{1} << 16);
  layer.head_width = size("head_dim", 0, most_width);
  config.positions = size("max_position_embeddings", config.positions, std::uint64_t{1} << 30);
  layer.epsilon = positive("rms_norm_eps", layer.epsilon);
  layer.attention_dropout = probability("attention_dropout", layer.attention_dropout);
  if (activation("hidden_act", Activation::silu) != Activation::silu)
    bad_value("hidden_act", shown(*find("hidden_act")), "\"silu\"");
  if (config.kind != DecoderKind::qwen2) {
    layer.projection_bias = layer.output_bias = flag("attention_bias", false);
    layer.inner_bias = flag("mlp_bias", false);
  }
  if (layer.head_width == 0 && layer.width % layer.heads != 0)
    bad_value("num_attention_heads", std::to_string(layer.heads),
              "a divisor of hidden_size, " + std::to_string(layer.width) + ", or head_dim");
  if (layer.head_size() % 2 != 0)
    bad_value("head_dim", std::to_string(layer.head_size()), "an even number");
  if (layer.heads % layer.groups() != 0)
    bad_value("num_key_value_heads", std::to_string(layer.groups()),
              "a divisor of num_attention_heads, " + std::to_string(layer.heads));
  read_rotary(config);
  read_windows(config);
}

SOMA_INLINE void DecoderConfigReader::read_rotary(DecoderConfig& config) const {
  nn::DecoderOptions& layer = config.layer;
  layer.rotary_base = positive("rope_theta", layer.rotary_base);
  if (layer.rotary_base < 1) bad_value("rope_theta", shown(*find("rope_theta")), "at least 1");
  // The newer form wins, also with its own rope_theta, if it has one.
  const Json* object = find("rope_parameters");
  if (object == nullptr) object = find("rope_scaling");
  if (object != nullptr) Rotary(*this, *object, name_).read(layer);
}

SOMA_INLINE void DecoderConfigReader::read_windows(DecoderConfig& config) const {
  const bool mistral = config.kind == DecoderKind::mistral;
  const bool says = root_.contains("sliding_window");
  if (config.kind == DecoderKind::llama && find("sliding_window") != nullptr)
    bad_value("sliding_window", shown(*find("sliding_window")), "none, or null, for a llama");
  if (mistral && says) config.window = size("sliding_window", 0, std::uint64_t{1} << 30);
  const Json* types = find("layer_types");
  if (types == nullptr) return;
  if (!types->is_array()) bad_type("layer_types", *types, "a list of texts");
  for (const Json& type : *types)
    if (type != "full_attention" && !(mistral && config.window != 0 && type == "sliding_attention"))
      bad_value("layer_types", shown(type), "\"full_attention\"");
}

SOMA_INLINE std::vector<std::int32_t> DecoderConfigReader::end_ids() const {
  std::vector<std::int32_t> result;
  const Json* given = find("eos_token_id");
  if (given == nullptr) return result;
  const Json list = given->is_array() ? *given : Json::array({*given});
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >> 31 != 0)
      bad_type("eos_token_id", id, "a token's id, or a list of ids");
    result.push_back(static_cast<std::int32_t>(id.get<std::uint64_t>()));
  }
  return result;
}

// The nearest double that a person would write: 1e-06, not 9.99999997e-07.
inline nlohmann::json json_number(float value) {
  return nlohmann::json::parse(soma::float_text(value));
}

inline void put_gpt2(const DecoderConfig& config, nlohmann::json& root) {
  const nn::DecoderOptions& layer = config.layer;
  root["n_embd"] = layer.width;
  root["n_layer"] = config.layers;
  root["n_head"] = layer.heads;
  root["n_inner"] = layer.inner == 4 * layer.width ? nlohmann::json() : nlohmann::json(layer.inner);
  root["n_positions"] = config.positions;
  root["resid_pdrop"] = json_number(layer.dropout);
  root["embd_pdrop"] = json_number(config.embedding_dropout);
  root["attn_pdrop"] = json_number(layer.attention_dropout);
  root["layer_norm_epsilon"] = json_number(layer.epsilon);
  for (const ActivationName& known : activation_names)
    if (known.activation == layer.activation) {
      root["activation_function"] = known.name;
      break;
    }
}

inline void put_rotary(const nn::DecoderOptions& layer, nlohmann::json& root) {
  using Json = nlohmann::json;
  const RotaryScaling& scaling = layer.rotary_scaling;
  Json rope = Json::object();
  if (scaling.kind == RotaryScaling::Kind::linear)
    rope = {{"rope_type", "linear"}, {"factor", json_number(scaling.factor)}};
  if (scaling.kind == RotaryScaling::Kind::llama3)
    rope = {{"rope_type", "llama3"},
            {"factor", json_number(scaling.factor)},
            {"low_freq_factor", json_number(scaling.low_frequency_factor)},
            {"high_freq_factor", json_number(scaling.high_frequency_factor)},
            {"original_max_position_embeddings", scaling.original_positions}};
  root["rope_theta"] = json_number(layer.rotary_base);
  root["rope_scaling"] = rope.empty() ? Json() : rope;
  if (rope.empty()) rope["rope_type"] = "default";
  // Version 4.43 knows "type" alone for linear.
  if (root["rope_scaling"].is_object()) root["rope_scaling"]["type"] = rope["rope_type"];
  rope["rope_theta"] = root["rope_theta"];
  root["rope_parameters"] = rope;
}

inline void put_llama(const DecoderConfig& config, nlohmann::json& root) {
  const nn::DecoderOptions& layer = config.layer;
  root["hidden_size"] = layer.width;
  root["intermediate_size"] = layer.inner;
  root["num_hidden_layers"] = config.layers;
  root["num_attention_heads"] = layer.heads;
  root["num_key_value_heads"] = layer.groups();
  root["head_dim"] = layer.head_size();
  root["hidden_act"] = "silu";
  root["max_position_embeddings"] = config.positions;
  root["rms_norm_eps"] = json_number(layer.epsilon);
  root["attention_dropout"] = json_number(layer.attention_dropout);
  if (config.kind != DecoderKind::qwen2) {
    root["attention_bias"] = layer.projection_bias;
    root["mlp_bias"] = layer.inner_bias;
  }
  if (config.kind == DecoderKind::mistral)
    root["sliding_window"] = config.window == 0 ? nlohmann::json() : nlohmann::json(config.window);
  put_rotary(layer, root);
}

}  // namespace SOMA_NAMESPACE::models::detail

namespace SOMA_NAMESPACE::models {

SOMA_INLINE DecoderConfigFile decoder_config_from_json(std::string_view text,
                                                       std::string_view name) {
  return detail::DecoderConfigReader(text, name).read();
}

SOMA_INLINE std::string to_json(const DecoderConfigFile& file, DType weights) {
  using Json = nlohmann::json;
  const DecoderConfig& config = file.config;
  const auto kind = static_cast<std::size_t>(config.kind);
  Json root = Json::parse(file.text);
  constexpr std::string_view classes[] = {"GPT2LMHeadModel", "LlamaForCausalLM",
                                          "MistralForCausalLM", "Qwen2ForCausalLM"};
  root["model_type"] = decoder_kind_names[kind];
  root["architectures"] = Json::array({classes[kind]});
  root["vocab_size"] = config.vocabulary;
  root["initializer_range"] = detail::json_number(config.layer.standard_deviation);
  root["tie_word_embeddings"] = config.tied;
  if (file.end_ids.size() == 1)
    root["eos_token_id"] = file.end_ids.front();
  else if (!file.end_ids.empty())
    root["eos_token_id"] = file.end_ids;
  config.kind == DecoderKind::gpt2 ? detail::put_gpt2(config, root)
                                   : detail::put_llama(config, root);
  root["torch_dtype"] = root["dtype"] = weights == DType::bf16   ? "bfloat16"
                                        : weights == DType::fp16 ? "float16"
                                                                 : "float32";
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

SOMA_INLINE DecoderConfigFile load_decoder_config(std::string_view path) {
  std::string file(path);
  if (detail::is_folder(file)) file.append("/config.json");
  return decoder_config_from_json(detail::text_of(*MappedFile::open("load_decoder_config", file)),
                                  file);
}

}  // namespace SOMA_NAMESPACE::models
