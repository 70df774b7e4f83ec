#pragma once
// A row of JSON lines: an object with a text and a label among its fields. The only reader of rows
// that uses the JSON library.

#include <soma/base/json_limits.hpp>
#include <soma/text/columns.hpp>
#include <soma/text/record_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace soma::text {

// Receives the parser's events and keeps the text and label fields of the object. Texts are JSON
// strings. The label is a string, a whole number (any number, if rows are labelled with numbers),
// or true or false, which then are its name; or a list of these, if rows have several labels.
class JsonRowReader {
 public:
  using Json = nlohmann::json;

  // The options name the keys; "text" and "label" by default.
  explicit JsonRowReader(const RowOptions& options = {}) : kind_(options.labels) {
    for (const std::string& key : detail::text_columns_of(options)) text_keys_.push_back(key);
    if (text_keys_.empty()) text_keys_.emplace_back("text");
    texts_ = text_keys_.size();
    if (!options.pair_column.empty()) text_keys_.push_back(options.pair_column);
    label_key_ = options.label_column.empty() ? "label" : options.label_column;
  }

  // The content of the line.
  std::vector<std::string>& texts() { return found_; }
  std::string& pair() { return found_.back(); }
  std::size_t text_count() const { return texts_; }
  const std::string& label() const { return label_; }
  const std::vector<std::string>& labels() const { return labels_; }
  bool is_list() const { return is_list_; }

  // Reads a line; returns its problem, if there is one: always text.row_json.
  std::optional<RowProblem> read(std::string_view line) {
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
      if (problem_.empty() && !given_[i])
        refuse("an object without " + soma::quoted(text_keys_[i]));
    if (problem_.empty() && !has_label_) refuse("an object without " + soma::quoted(label_key_));
    if (problem_.empty()) return std::nullopt;
    std::string keys;
    for (const std::string& key : text_keys_)
      keys += (keys.empty() ? "" : ", ") + soma::quoted(key);
    return RowProblem{error_id::text_row_json, problem_,
                      "an object with " + keys + (text_keys_.size() == 1 ? ", a text" : ", texts") +
                          ", and " + soma::quoted(label_key_) + ", a text or a " +
                          (kind_ == data::LabelKind::number ? "" : "whole ") + "number" +
                          (kind_ == data::LabelKind::several ? ", or a list of them" : "")};
  }

  // Called by the parser.
  bool start_object(std::size_t) { return enter("an object"); }
  bool end_object() { return leave(); }
  bool start_array(std::size_t) {
    if (depth_ == 0) return refuse("a list, no object");
    if (depth_ == 1 && field_ == Field::label && !in_labels_ && kind_ == data::LabelKind::several) {
      has_label_ = is_list_ = in_labels_ = true;
      return true;
    }
    return enter("a list");
  }
  bool end_array() {
    if (!in_labels_) return leave();
    in_labels_ = false;
    return true;
  }
  bool key(const std::string& name) {
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
  bool string(std::string& value) {
    if (depth_ == 0) return refuse("no object");
    if (depth_ == 1 && field_ == Field::text) {
      found_[text_] = std::move(value);
      given_[text_] = true;
      return true;
    }
    if (depth_ == 1 && field_ == Field::label) take_label(std::move(value));
    return true;
  }
  bool number_unsigned(std::uint64_t value) { return name(std::to_string(value)); }
  bool number_integer(std::int64_t value) { return name(std::to_string(value)); }
  bool number_float(double, const std::string& digits) {
    return kind_ == data::LabelKind::number ? name(digits) : other_value(digits);
  }
  bool boolean(bool value) { return name(value ? "true" : "false"); }
  bool null() { return other_value("null"); }
  bool binary(Json::binary_t&) { return refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
    return refuse("no JSON at its byte " + std::to_string(position));
  }

 private:
  enum class Field : std::uint8_t { other, text, label };

  bool refuse(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    in_labels_ = false;
    return false;
  }
  bool enter(std::string_view what) {
    if (in_labels_ || (depth_ == 1 && field_ != Field::other)) return other_value(what);
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  void take_label(std::string value) {
    has_label_ = true;
    if (in_labels_)
      labels_.push_back(std::move(value));
    else
      label_ = std::move(value);
  }
  bool name(std::string value) {
    if (depth_ == 1 && field_ == Field::label) {
      take_label(std::move(value));
      return true;
    }
    return other_value(value);
  }
  // A value that no text or label may have.
  bool other_value(std::string_view value) {
    if (depth_ == 0) return refuse("no object");
    if (depth_ > 1 || field_ == Field::other) return true;
    return refuse(std::string(value) + " for " +
                  soma::quoted(field_ == Field::text ? text_keys_[text_] : label_key_));
  }

  std::vector<std::string> text_keys_{};  // the last is that of the pair, where there are pairs
  std::string label_key_{};
  std::size_t texts_ = 1;  // keys of the text
  data::LabelKind kind_;
  std::vector<std::string> found_{}, labels_{};
  std::vector<bool> given_{};
  std::string label_{};
  std::string problem_{};  // why the first event was refused
  std::size_t depth_ = 0, text_ = 0;
  Field field_ = Field::other;
  bool has_label_ = false, is_list_ = false, in_labels_ = false;
};

}  // namespace soma::text
