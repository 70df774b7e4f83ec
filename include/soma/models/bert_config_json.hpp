#pragma once
// Reads and writes the config.json of BERT and DistilBERT in the form of the usual hubs and
// libraries. The table in base/model_keys.hpp defines the treatment of each key.

#include <soma/base/fixed.hpp>
#include <soma/base/json_limits.hpp>
#include <soma/base/model_keys.hpp>
#include <soma/io/json_text.hpp>
#include <soma/io/record_json.hpp>
#include <soma/models/bert_config_file.hpp>

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

namespace SOMA_NAMESPACE::models {

namespace detail {

using soma::detail::json_text;

// The checked values of a config.json by key, with a default for each key.
class BertConfigReader {
 public:
  using Json = nlohmann::json;

  // `name`: of the file, for messages.
  BertConfigReader(std::string_view text, std::string_view name);

  BertConfigFile read() const;

 private:
  static constexpr std::string_view operation = "bert_config_from_json";

  void read_bert(BertConfig& config) const;
  void read_distilbert(BertConfig& config) const;
  void read_sizes(BertConfig& config, const char* width, const char* layers, const char* heads,
                  const char* inner) const;

  // A model of the same name with another computation would load and give wrong results.
  BertKind check_kind() const;
  data::LabelKind label_kind(std::size_t label_count) const;
  // The value as JSON, or its beginning.
  static std::string shown(const Json& value);

  bool other_task() const;
  Pooling pooling() const;
  InputForm input() const;

  std::size_t size(const char* key, std::size_t otherwise, std::uint64_t most) const;
  std::uint64_t whole(const char* key, std::uint64_t least, std::uint64_t most) const;
  float number(const char* key, float otherwise) const;
  float probability(const char* key, float otherwise) const;
  float positive(const char* key, float otherwise) const;
  Activation activation(const char* key, Activation otherwise) const;

  // The labels: id2label, {"0": "negative", ...}; without it num_labels, or two labels, with the
  // usual names.
  std::vector<std::string> labels() const;

  // nullptr: missing or null, which mean the same.
  const Json* find(const char* key) const;
  const Json* text(const char* key) const;
  [[noreturn]] void bad_type(std::string_view key, const Json& value,
                             std::string_view wanted) const;
  [[noreturn]] void bad_value(std::string_view key, std::string_view given,
                              std::string_view wanted) const;
  std::string argument(std::string_view key) const;

  std::string_view name_;
  Json root_;
};

}  // namespace detail

// Reads a config.json. Missing keys have the values of the published base model (BertConfig{}; two
// labels, LABEL_0 and LABEL_1), or of the published DistilBERT if model_type names it. null means
// missing. Keys in no table (base/model_keys.hpp) are ignored. `name`: of the file, for messages.
// Errors models.config_json, models.config_type, models.config_value: they name the key, its value
// and the accepted values.
BertConfigFile bert_config_from_json(std::string_view text, std::string_view name = "config.json");

// The text of a config.json for a classifier with fp32 weights. If there are no labels, their names
// are LABEL_0 and LABEL_1; for a number LABEL_0. Error models.config_value: a label that is not
// UTF-8, is empty, contains a tab or an end of line, or appears twice.
std::string to_json(const BertConfigFile& file);

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/bert_config_json.ipp>
#endif
