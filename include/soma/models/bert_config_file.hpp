#pragma once
// BertConfigFile: the content of a config.json, and the names in that file.

#include <soma/data/labels.hpp>
#include <soma/models/bert.hpp>
#include <soma/models/input_form.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models {

// The content of a config.json: the model, its task and its tokenizer.
struct BertConfigFile {
  BertConfig config{};
  std::vector<std::string> labels{};  // class names, in the order of the logits
  std::uint64_t pad_token = 0;        // an id; soma pads nothing, other readers do
  // The classifier in the weights. other_task: true if it classifies other things than texts
  // (`architectures`). kind: the label of a text (`problem_type`): one of several, any number, or a
  // number. A file without problem_type means one label, or a number if there is a single label, as
  // in the usual library's training.
  bool other_task = false;
  data::LabelKind kind = data::LabelKind::one;
  InputForm input{};              // the form of the texts, if the file has it
  std::string tokenizer_class{};  // the class name of the model's tokenizer, if the file has it
};

namespace detail {

// `problem_type` of each kind, in the order of data::LabelKind.
inline constexpr std::array<std::string_view, 3> problem_types = {
    "single_label_classification", "multi_label_classification", "regression"};

inline constexpr std::uint64_t most_labels = 65536;

std::string default_label(std::size_t i);

// An answer is a line with a label before a tab, so labels must not break such a line. Error
// models.config_value.
void check_labels(std::string_view operation, const std::vector<std::string>& labels);

}  // namespace detail
}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/bert_config_file.ipp>
#endif
