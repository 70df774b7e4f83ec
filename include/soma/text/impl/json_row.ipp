#pragma once
// The functions of json_row.hpp.

#include <soma/text/json_row.hpp>

#include <soma/base/json_limits.hpp>
#include <soma/text/columns.hpp>
#include <soma/text/record_reader.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE JsonRowReader::JsonRowReader(const RowOptions& options) : kind_(options.labels) {
  for (const std::string& key : detail::text_columns_of(options)) text_keys_.push_back(key);
  if (text_keys_.empty()) text_keys_.emplace_back("text");
  texts_ = text_keys_.size();
  if (!options.pair_column.empty()) text_keys_.push_back(options.pair_column);
  label_key_ = options.label_column.empty() ? "label" : options.label_column;
}

SOMA_INLINE std::string& JsonRowReader::pair() { return found_.back(); }

SOMA_INLINE std::optional<RowProblem> JsonRowReader::read(std::string_view line) {
  found_.assign(text_keys_.size(), {});
  given_.assign(text_keys_.size(), false);
  label_.clear();
  labels_.clear();
  has_label_ = is_list_ = false;
  problem_.clear();
  depth_ = 0;
  field_ = Field::other;
  if (soma::detail::has_zero_byte(line)) refuse("a line with a zero byte");
  if (problem_.empty() && !Json::sax_parse(line.begin(), line.end(), this) && problem_.empty())
    refuse("no JSON");
  for (std::size_t i = 0; i < text_keys_.size(); ++i)
    if (problem_.empty() && !given_[i]) refuse("an object without " + soma::quoted(text_keys_[i]));
  if (problem_.empty() && !has_label_) refuse("an object without " + soma::quoted(label_key_));
  if (problem_.empty()) return std::nullopt;
  std::string keys;
  for (const std::string& key : text_keys_) keys += (keys.empty() ? "" : ", ") + soma::quoted(key);
  return RowProblem{error_id::text_row_json, problem_,
                    "an object with " + keys + (text_keys_.size() == 1 ? ", a text" : ", texts") +
                        ", and " + soma::quoted(label_key_) + ", a text or a number" +
                        (kind_ == data::LabelKind::several ? ", or a list of them" : "")};
}

SOMA_INLINE bool JsonRowReader::start_object(std::size_t) { return enter("an object"); }

SOMA_INLINE bool JsonRowReader::end_object() { return leave(); }

SOMA_INLINE bool JsonRowReader::start_array(std::size_t) {
  if (depth_ == 0) return refuse("a list, no object");
  if (depth_ == 1 && field_ == Field::label && !in_labels_ && kind_ == data::LabelKind::several) {
    has_label_ = is_list_ = in_labels_ = true;
    return true;
  }
  return enter("a list");
}

SOMA_INLINE bool JsonRowReader::end_array() {
  if (!in_labels_) return leave();
  in_labels_ = false;
  return true;
}

SOMA_INLINE bool JsonRowReader::key(const std::string& name) {
  if (depth_ != 1) return true;
  field_ = name == label_key_ ? Field::label : Field::other;
  for (std::size_t i = 0; i < text_keys_.size(); ++i)
    if (name == text_keys_[i]) {
      field_ = Field::text;
      text_ = i;
    }
  const bool twice =
      (field_ == Field::text && given_[text_]) || (field_ == Field::label && has_label_);
  return !twice || refuse("an object with " + soma::quoted(name) + " twice");
}

SOMA_INLINE bool JsonRowReader::string(std::string& value) {
  if (depth_ == 0) return refuse("no object");
  if (depth_ == 1 && field_ == Field::text) {
    found_[text_] = std::move(value);
    given_[text_] = true;
    return true;
  }
  if (depth_ == 1 && field_ == Field::label) take_label(std::move(value));
  return true;
}

SOMA_INLINE bool JsonRowReader::number_unsigned(std::uint64_t value) {
  return name(std::to_string(value));
}

SOMA_INLINE bool JsonRowReader::number_integer(std::int64_t value) {
  return name(std::to_string(value));
}

SOMA_INLINE bool JsonRowReader::number_float(double, const std::string& digits) {
  return name(digits);
}

SOMA_INLINE bool JsonRowReader::boolean(bool value) { return name(value ? "true" : "false"); }

SOMA_INLINE bool JsonRowReader::null() { return other_value("null"); }

SOMA_INLINE bool JsonRowReader::binary(Json::binary_t&) { return refuse("binary data"); }

SOMA_INLINE bool JsonRowReader::parse_error(std::size_t position, const std::string&,
                                            const nlohmann::detail::exception&) {
  return refuse("no JSON at its byte " + std::to_string(position));
}

SOMA_INLINE bool JsonRowReader::refuse(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
  in_labels_ = false;
  return false;
}

SOMA_INLINE bool JsonRowReader::enter(std::string_view what) {
  if (in_labels_ || (depth_ == 1 && field_ != Field::other)) return other_value(what);
  ++depth_;
  return true;
}

SOMA_INLINE bool JsonRowReader::leave() {
  --depth_;
  return true;
}

SOMA_INLINE void JsonRowReader::take_label(std::string value) {
  has_label_ = true;
  if (in_labels_)
    labels_.push_back(std::move(value));
  else
    label_ = std::move(value);
}

SOMA_INLINE bool JsonRowReader::name(std::string value) {
  if (depth_ == 1 && field_ == Field::label) {
    take_label(std::move(value));
    return true;
  }
  return other_value(value);
}

SOMA_INLINE bool JsonRowReader::other_value(std::string_view value) {
  if (depth_ == 0) return refuse("no object");
  if (depth_ > 1 || field_ == Field::other) return true;
  return refuse(std::string(value) + " for " +
                soma::quoted(field_ == Field::text ? text_keys_[text_] : label_key_));
}

}  // namespace SOMA_NAMESPACE::text
