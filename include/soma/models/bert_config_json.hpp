#pragma once
// BERT's config.json, as the usual hubs and libraries have it, both ways.

#include <soma/base/json_limits.hpp>
#include <soma/io/json_text.hpp>
#include <soma/models/bert.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace soma::models {

// What a config.json says: the model, and what belongs to its task and its tokenizer.
struct BertConfigFile {
  BertConfig config{};
  std::vector<std::string> labels{};  // of the classes, in the order of the logits
  std::uint64_t pad_token = 0;        // an id; soma pads nothing, other readers do
  // Of a classifier in the weights: whether it is one of other things than texts (`architectures`),
  // and what it was trained for. Only one label a text has probabilities that are a softmax.
  bool other_task = false;
  std::string problem_type = "single_label_classification";
};

namespace detail {

using soma::detail::json_text;

struct ActivationName {
  std::string_view name;
  Activation activation;
};
// The first name of an activation is the one that is written.
inline constexpr std::array<ActivationName, 8> activation_names{{
    {"gelu", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh},
    {"relu", Activation::relu},
    {"tanh", Activation::tanh},
    {"linear", Activation::none},
    {"gelu_python", Activation::gelu},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
}};

inline constexpr std::uint64_t most_labels = 65536;

inline std::string default_label(std::size_t i) { return "LABEL_" + std::to_string(i); }

// An answer is a line with a label in front of a tab. Error models.config_value.
inline void check_labels(std::string_view operation, const std::vector<std::string>& labels) {
  std::vector<std::string_view> sorted(labels.begin(), labels.end());
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    fail(error_id::config_value, operation, "label", soma::quoted(*twice) + " twice",
         "labels that differ");
  for (const std::string& label : labels)
    if (label.empty() || label.find_first_of("\t\r\n") != std::string::npos)
      fail(error_id::config_value, operation, "label", soma::quoted(label),
           "a label without tabs and line ends, and not empty");
}

// The values of a config.json by key, each checked, with what it is where the key is not there.
class BertConfigReader {
 public:
  using Json = nlohmann::json;

  // `name` is that of the file, for messages.
  BertConfigReader(std::string_view text, std::string_view name) : name_(name) {
    if (soma::detail::may_be_tree(text))
      root_ = Json::parse(text.begin(), text.end(), nullptr, false);
    if (!root_.is_object())
      fail(error_id::config_json, operation, "text of " + soma::quoted(name_),
           root_.is_discarded() || root_.is_null() ? "no JSON" : root_.type_name(),
           "a JSON object");
  }

  BertConfigFile read() const {
    check_kind();
    BertConfigFile file;
    BertConfig& config = file.config;
    config.vocabulary = size("vocab_size", config.vocabulary, (std::uint64_t{1} << 31) - 1);
    config.width = size("hidden_size", config.width, std::uint64_t{1} << 20);
    config.layers = size("num_hidden_layers", config.layers, std::uint64_t{1} << 16);
    config.heads = size("num_attention_heads", config.heads, std::uint64_t{1} << 16);
    config.inner = size("intermediate_size", config.inner, std::uint64_t{1} << 22);
    config.positions = size("max_position_embeddings", config.positions, std::uint64_t{1} << 20);
    config.types = size("type_vocab_size", config.types, std::uint64_t{1} << 20);
    if (config.width % config.heads != 0)
      bad_value("num_attention_heads", std::to_string(config.heads),
                "a divisor of hidden_size, " + std::to_string(config.width));
    config.dropout = probability("hidden_dropout_prob", config.dropout);
    config.attention_dropout =
        probability("attention_probs_dropout_prob", config.attention_dropout);
    if (find("classifier_dropout") != nullptr)
      config.classifier_dropout = probability("classifier_dropout", 0);
    config.epsilon = positive("layer_norm_eps", config.epsilon);
    config.deviation = positive("initializer_range", config.deviation);
    config.activation = activation(config.activation);
    file.labels = labels();
    file.other_task = other_task();
    if (const Json* problem = text("problem_type"); problem != nullptr)
      file.problem_type = problem->get<std::string>();
    if (find("pad_token_id") != nullptr)
      file.pad_token = whole("pad_token_id", 0, config.vocabulary - 1);
    return file;
  }

 private:
  static constexpr std::string_view operation = "bert_config_from_json";

  // A model of the same name that computes something else would load and be wrong.
  void check_kind() const {
    const auto only = [&](const char* key, std::string_view wanted) {
      const Json* value = text(key);
      if (value != nullptr && *value != wanted)
        bad_value(key, soma::quoted(value->get_ref<const std::string&>()), soma::quoted(wanted));
    };
    only("model_type", "bert");
    only("position_embedding_type", "absolute");
    for (const char* key : {"is_decoder", "add_cross_attention"}) {
      const Json* value = find(key);
      if (value == nullptr) continue;
      if (!value->is_boolean()) bad_type(key, *value, "false");
      if (value->get<bool>()) bad_value(key, "true", "false: an encoder");
    }
  }

  bool other_task() const {
    const Json* names = find("architectures");
    if (names == nullptr) return false;
    const auto is_text = [](const Json& name) { return name.is_string(); };
    if (!names->is_array() || !std::ranges::all_of(*names, is_text))
      bad_type("architectures", *names, "a list of texts");
    const auto is_classifier = [](const Json& name) {
      return name.get_ref<const std::string&>().ends_with("ForSequenceClassification");
    };
    return !names->empty() && std::ranges::none_of(*names, is_classifier);
  }

  std::size_t size(const char* key, std::size_t otherwise, std::uint64_t most) const {
    return find(key) == nullptr ? otherwise : static_cast<std::size_t>(whole(key, 1, most));
  }
  std::uint64_t whole(const char* key, std::uint64_t least, std::uint64_t most) const {
    const Json& value = *find(key);
    if (!value.is_number_integer()) bad_type(key, value, "an integer");
    // As text where it is negative: it may be anything.
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least ||
        value.get<std::uint64_t>() > most)
      bad_value(key, value.dump(), std::to_string(least) + " to " + std::to_string(most));
    return value.get<std::uint64_t>();
  }
  float number(const char* key, float otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number()) bad_type(key, *value, "a number");
    return static_cast<float>(value->get<double>());
  }
  float probability(const char* key, float otherwise) const {
    const float value = number(key, otherwise);
    if (!(value >= 0 && value < 1)) bad_value(key, find(key)->dump(), "0 to below 1");
    return value;
  }
  float positive(const char* key, float otherwise) const {
    const float value = number(key, otherwise);
    if (!(value > 0 && std::isfinite(value)))
      bad_value(key, find(key)->dump(), "a positive number that a float holds");
    return value;
  }
  Activation activation(Activation otherwise) const {
    const Json* value = text("hidden_act");
    if (value == nullptr) return otherwise;
    const auto& name = value->get_ref<const std::string&>();
    std::string wanted = "one of";
    for (const ActivationName& known : activation_names) {
      if (known.name == name) return known.activation;
      wanted.append(" ").append(known.name);
    }
    bad_value("hidden_act", soma::quoted(name), wanted);
  }

  // id2label, {"0": "negative", ...}; without it num_labels, or two, under their usual names.
  std::vector<std::string> labels() const {
    std::vector<std::string> result;
    const Json* count = find("num_labels");
    const std::size_t wanted = size("num_labels", 2, most_labels);
    if (const Json* names = find("id2label"); names != nullptr) {
      if (!names->is_object()) bad_type("id2label", *names, "an object");
      if (names->empty() || names->size() > most_labels)
        bad_value("id2label", std::to_string(names->size()) + " labels",
                  "1 to " + std::to_string(most_labels));
      if (count != nullptr && wanted != names->size())
        bad_value("num_labels", count->dump(), std::to_string(names->size()) + ", as id2label has");
      for (std::size_t i = 0; i < names->size(); ++i) {
        const auto label = names->find(std::to_string(i));
        if (label == names->end())
          bad_value("id2label", "one without " + soma::quoted(std::to_string(i)),
                    "ids from 0 to " + std::to_string(names->size() - 1));
        if (!label->is_string()) bad_type("id2label", *label, "texts");
        result.push_back(label->get<std::string>());
      }
      return result;
    }
    for (std::size_t i = 0; i < wanted; ++i) result.push_back(default_label(i));
    return result;
  }

  // nullptr: not there, or null, which means the same.
  const Json* find(const char* key) const {
    const auto value = root_.find(key);
    return value == root_.end() || value->is_null() ? nullptr : &*value;
  }
  const Json* text(const char* key) const {
    const Json* value = find(key);
    if (value != nullptr && !value->is_string()) bad_type(key, *value, "a text");
    return value;
  }
  [[noreturn]] void bad_type(std::string_view key, const Json& value,
                             std::string_view wanted) const {
    fail(error_id::config_type, operation, argument(key), value.type_name(), wanted);
  }
  [[noreturn]] void bad_value(std::string_view key, std::string_view given,
                              std::string_view wanted) const {
    fail(error_id::config_value, operation, argument(key), given, wanted);
  }
  std::string argument(std::string_view key) const {
    return std::string(key).append(" of ").append(soma::quoted(name_));
  }

  std::string_view name_;
  Json root_;
};

// The fewest digits that read back as the same float.
inline std::string float_text(float value) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

}  // namespace detail

// What a config.json says. Keys that are not there have the values of the published base model
// (BertConfig{}; two labels, LABEL_0 and LABEL_1); null is the same as not there; keys that soma
// does not know are passed over. `name` is that of the file, for messages. Errors
// models.config_json, models.config_type, models.config_value: the key, what it has, and what it
// may have.
inline BertConfigFile bert_config_from_json(std::string_view text,
                                            std::string_view name = "config.json") {
  return detail::BertConfigReader(text, name).read();
}

// The text of a config.json of a classifier with fp32 weights. Without labels they are called
// LABEL_0 and LABEL_1. Error models.config_value: a label that is not UTF-8, is empty, has a tab or
// a line's end in it, or is there twice.
inline std::string to_json(const BertConfigFile& file) {
  const BertConfig& config = file.config;
  std::vector<std::string> labels = file.labels;
  if (labels.empty()) labels = {detail::default_label(0), detail::default_label(1)};
  detail::check_labels("to_json", labels);
  std::string ids, names;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::optional<std::string> label = detail::json_text(labels[i]);
    if (!label)
      fail(error_id::config_value, "to_json", "label", soma::quoted(labels[i]), "valid UTF-8");
    const std::string id = std::to_string(i);
    const std::string_view comma = i == 0 ? "" : ", ";
    ids.append(comma).append(soma::quoted(id)).append(": ").append(*label);
    names.append(comma).append(*label).append(": ").append(id);
  }
  std::string_view activation;
  for (const detail::ActivationName& known : detail::activation_names)
    if (known.activation == config.activation && activation.empty()) activation = known.name;

  const std::pair<std::string_view, std::string> lines[] = {
      {"architectures", "[\"BertForSequenceClassification\"]"},
      {"attention_probs_dropout_prob", detail::float_text(config.attention_dropout)},
      {"classifier_dropout",
       config.classifier_dropout ? detail::float_text(*config.classifier_dropout) : "null"},
      {"hidden_act", soma::quoted(activation)},
      {"hidden_dropout_prob", detail::float_text(config.dropout)},
      {"hidden_size", std::to_string(config.width)},
      {"id2label", "{" + ids + "}"},
      {"initializer_range", detail::float_text(config.deviation)},
      {"intermediate_size", std::to_string(config.inner)},
      {"label2id", "{" + names + "}"},
      {"layer_norm_eps", detail::float_text(config.epsilon)},
      {"max_position_embeddings", std::to_string(config.positions)},
      {"model_type", "\"bert\""},
      {"num_attention_heads", std::to_string(config.heads)},
      {"num_hidden_layers", std::to_string(config.layers)},
      {"pad_token_id", std::to_string(file.pad_token)},
      {"position_embedding_type", "\"absolute\""},
      {"torch_dtype", "\"float32\""},
      {"type_vocab_size", std::to_string(config.types)},
      {"vocab_size", std::to_string(config.vocabulary)},
  };
  std::string text;
  for (const auto& [key, value] : lines)
    text.append(text.empty() ? "{\n  " : ",\n  ").append(soma::quoted(key)).append(": ") += value;
  return text.append("\n}\n");
}

}  // namespace soma::models
