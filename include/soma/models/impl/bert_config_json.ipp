#pragma once
// The functions of bert_config_json.hpp.

#include <soma/models/bert_config_json.hpp>

#include <soma/base/fixed.hpp>
#include <soma/base/model_keys.hpp>
#include <soma/io/json_text.hpp>
#include <soma/io/record_json.hpp>
#include <soma/models/bert_config_file.hpp>

#include <nlohmann/json.hpp>

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

namespace SOMA_NAMESPACE::models::detail {

SOMA_INLINE BertConfigFile BertConfigReader::read() const {
  const BertKind kind = check_kind();
  BertConfigFile file;
  BertConfig& config = file.config;
  config.kind = kind;
  config.vocabulary = size("vocab_size", config.vocabulary, (std::uint64_t{1} << 31) - 1);
  config.positions = size("max_position_embeddings", config.positions, std::uint64_t{1} << 20);
  config.standard_deviation = positive("initializer_range", config.standard_deviation);
  if (kind == BertKind::bert)
    read_bert(config);
  else
    read_distilbert(config);
  config.pooling = pooling();
  file.labels = labels();
  file.other_task = other_task();
  file.kind = label_kind(file.labels.size());
  file.input = input();
  if (find("pad_token_id") != nullptr)
    file.pad_token = whole("pad_token_id", 0, config.vocabulary - 1);
  if (const Json* name = text("tokenizer_class"); name != nullptr)
    file.tokenizer_class = name->get<std::string>();
  return file;
}

SOMA_INLINE void BertConfigReader::read_bert(BertConfig& config) const {
  read_sizes(config, "hidden_size", "num_hidden_layers", "num_attention_heads",
             "intermediate_size");
  config.types = size("type_vocab_size", config.types, std::uint64_t{1} << 20);
  config.dropout = probability("hidden_dropout_prob", config.dropout);
  config.attention_dropout = probability("attention_probs_dropout_prob", config.attention_dropout);
  if (find("classifier_dropout") != nullptr)
    config.classifier_dropout = probability("classifier_dropout", 0);
  config.epsilon = positive("layer_norm_eps", config.epsilon);
  config.activation = activation("hidden_act", config.activation);
}

SOMA_INLINE void BertConfigReader::read_distilbert(BertConfig& config) const {
  config.layers = 6;
  config.types = 0;
  read_sizes(config, "dim", "n_layers", "n_heads", "hidden_dim");
  config.dropout = probability("dropout", config.dropout);
  config.attention_dropout = probability("attention_dropout", config.attention_dropout);
  config.classifier_dropout = probability("seq_classif_dropout", 0.2f);
  config.activation = activation("activation", config.activation);
}

SOMA_INLINE void BertConfigReader::read_sizes(BertConfig& config, const char* width,
                                              const char* layers, const char* heads,
                                              const char* inner) const {
  config.width = size(width, config.width, std::uint64_t{1} << 20);
  config.layers = size(layers, config.layers, std::uint64_t{1} << 16);
  config.heads = size(heads, config.heads, std::uint64_t{1} << 16);
  config.inner = size(inner, config.inner, std::uint64_t{1} << 22);
  if (config.width % config.heads != 0)
    bad_value(heads, std::to_string(config.heads),
              "a divisor of " + std::string(width) + ", " + std::to_string(config.width));
}

SOMA_INLINE BertKind BertConfigReader::check_kind() const {
  BertKind kind = BertKind::bert;
  if (const Json* type = text("model_type"); type != nullptr && *type != "bert") {
    if (*type != "distilbert")
      bad_value("model_type", soma::quoted(type->get_ref<const std::string&>()),
                "\"bert\" or \"distilbert\"");
    kind = BertKind::distilbert;
  }
  check_keys(kind == BertKind::bert ? ModelFile::bert_config : ModelFile::distilbert_config);
  return kind;
}

SOMA_INLINE data::LabelKind BertConfigReader::label_kind(std::size_t label_count) const {
  const Json* problem = text("problem_type");
  if (problem == nullptr) return label_count == 1 ? data::LabelKind::number : data::LabelKind::one;
  const auto found = std::find(std::begin(problem_types), std::end(problem_types),
                               problem->get_ref<const std::string&>());
  if (found == problem_types.end())
    bad_value("problem_type", soma::quoted(problem->get_ref<const std::string&>()),
              "\"single_label_classification\", \"multi_label_classification\" or "
              "\"regression\"");
  return static_cast<data::LabelKind>(found - problem_types.begin());
}

SOMA_INLINE bool BertConfigReader::other_task() const {
  const Json* names = find("architectures");
  if (names == nullptr) return false;
  const auto is_text = [](const Json& name) { return name.is_string(); };
  if (!names->is_array() || !std::all_of(names->begin(), names->end(), is_text))
    bad_type("architectures", *names, "a list of texts");
  const auto is_classifier = [](const Json& name) {
    return name.get_ref<const std::string&>().ends_with("ForSequenceClassification");
  };
  return !names->empty() && std::none_of(names->begin(), names->end(), is_classifier);
}

SOMA_INLINE Pooling BertConfigReader::pooling() const {
  const Json* name = text("soma_pooling");
  if (name == nullptr) return Pooling::first;
  const auto found = std::find(std::begin(pooling_names), std::end(pooling_names),
                               name->get_ref<const std::string&>());
  if (found == std::end(pooling_names))
    bad_value("soma_pooling", soma::quoted(name->get_ref<const std::string&>()),
              "\"first\", \"mean\" or \"max\"");
  return static_cast<Pooling>(found - std::begin(pooling_names));
}

SOMA_INLINE InputForm BertConfigReader::input() const {
  const Json* form = find(std::string(input_form_key).c_str());
  if (form == nullptr) return {};
  if (!form->is_object()) bad_type(input_form_key, *form, "an object");
  return input_form_of(record_from_json(form->dump(-1, ' ', false, Json::error_handler_t::replace),
                                        argument(input_form_key)));
}

SOMA_INLINE std::vector<std::string> BertConfigReader::labels() const {
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
        bad_value("id2label", "an object without " + soma::quoted(std::to_string(i)),
                  "ids from 0 to " + std::to_string(names->size() - 1));
      // Numbers, true and false become labels with these texts as names.
      if (label->is_structured() || label->is_null())
        bad_type("id2label", *label, "texts or numbers");
      result.push_back(label->is_string() ? label->get<std::string>() : label->dump());
    }
    return result;
  }
  for (std::size_t i = 0; i < wanted; ++i) result.push_back(default_label(i));
  return result;
}

}  // namespace SOMA_NAMESPACE::models::detail

namespace SOMA_NAMESPACE::models {

SOMA_INLINE BertConfigFile bert_config_from_json(std::string_view text, std::string_view name) {
  return detail::BertConfigReader(text, name).read();
}

SOMA_INLINE std::string to_json(const BertConfigFile& file) {
  const BertConfig& config = file.config;
  std::vector<std::string> labels = file.labels;
  const std::size_t usual = file.kind == data::LabelKind::number ? 1 : 2;
  for (std::size_t i = 0; i < usual && file.labels.empty(); ++i)
    labels.push_back(detail::default_label(i));
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

  using soma::float_text;
  const bool distilled = config.kind == BertKind::distilbert;
  const std::string classifier_dropout =
      config.classifier_dropout ? float_text(*config.classifier_dropout) : "null";
  std::vector<std::pair<std::string_view, std::string>> lines;
  if (distilled)
    lines = {
        {"activation", soma::quoted(activation)},
        {"architectures", "[\"DistilBertForSequenceClassification\"]"},
        {"attention_dropout", float_text(config.attention_dropout)},
        {"dim", std::to_string(config.width)},
        {"dropout", float_text(config.dropout)},
        {"hidden_dim", std::to_string(config.inner)},
        {"model_type", "\"distilbert\""},
        {"n_heads", std::to_string(config.heads)},
        {"n_layers", std::to_string(config.layers)},
        {"seq_classif_dropout", float_text(config.classifier_dropout.value_or(config.dropout))},
        {"sinusoidal_pos_embds", "false"},
    };
  else
    lines = {
        {"architectures", "[\"BertForSequenceClassification\"]"},
        {"attention_probs_dropout_prob", float_text(config.attention_dropout)},
        {"classifier_dropout", classifier_dropout},
        {"hidden_act", soma::quoted(activation)},
        {"hidden_dropout_prob", float_text(config.dropout)},
        {"hidden_size", std::to_string(config.width)},
        {"intermediate_size", std::to_string(config.inner)},
        {"layer_norm_eps", float_text(config.epsilon)},
        {"model_type", "\"bert\""},
        {"num_attention_heads", std::to_string(config.heads)},
        {"num_hidden_layers", std::to_string(config.layers)},
        {"position_embedding_type", "\"absolute\""},
        {"type_vocab_size", std::to_string(config.types)},
    };
  const std::string_view problem = detail::problem_types[static_cast<std::size_t>(file.kind)];
  lines.insert(lines.end(), {
                                {"id2label", "{" + ids + "}"},
                                {"initializer_range", float_text(config.standard_deviation)},
                                {"label2id", "{" + names + "}"},
                                {"max_position_embeddings", std::to_string(config.positions)},
                                {"pad_token_id", std::to_string(file.pad_token)},
                                {"problem_type", soma::quoted(problem)},
                                {"torch_dtype", "\"float32\""},
                                {"vocab_size", std::to_string(config.vocabulary)},
                            });
  if (config.pooling != Pooling::first)
    lines.emplace_back("soma_pooling",
                       soma::quoted(pooling_names[static_cast<std::size_t>(config.pooling)]));
  if (file.input != InputForm{}) lines.emplace_back(input_form_key, to_json(to_record(file.input)));
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const auto& [key, value] : lines)
    text.append(text.empty() ? "{\n  " : ",\n  ").append(soma::quoted(key)).append(": ") += value;
  return text.append("\n}\n");
}

}  // namespace SOMA_NAMESPACE::models
