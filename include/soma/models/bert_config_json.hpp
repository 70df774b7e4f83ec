#pragma once
// Reads and writes the config.json of BERT and DistilBERT in the form of the usual hubs and
// libraries. The table in base/model_keys.hpp defines the treatment of each key.

#include <soma/base/fixed.hpp>
#include <soma/base/model_keys.hpp>
#include <soma/io/json_text.hpp>
#include <soma/io/record_json.hpp>
#include <soma/models/bert_config_file.hpp>
#include <soma/models/config_reader.hpp>

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

class BertConfigReader : private ConfigReader {
 public:
  // `name`: of the file, for messages.
  BertConfigReader(std::string_view text, std::string_view name)
      : ConfigReader("bert_config_from_json", text, name) {}

  BertConfigFile read() const;

 private:
  void read_bert(BertConfig& config) const;
  void read_distilbert(BertConfig& config) const;
  void read_sizes(BertConfig& config, const char* width, const char* layers, const char* heads,
                  const char* inner) const;

  // A model of the same name with another computation would load and give wrong results.
  BertKind check_kind() const;
  data::LabelKind label_kind(std::size_t label_count) const;
  bool other_task() const;
  Pooling pooling() const;
  InputForm input() const;

  // The labels: id2label, {"0": "negative", ...}; without it num_labels, or two labels, with the
  // usual names.
  std::vector<std::string> labels() const;
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
