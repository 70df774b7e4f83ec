#pragma once
// A row of JSON lines: an object with a text and a label among its fields. The only reader that
// uses the JSON library.

#include <soma/base/json_limits.hpp>
#include <soma/text/record_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace soma::text {

// Receives the events of the parser and keeps two fields of the object, whatever else it holds. The
// text is a JSON string; the label a string, a whole number, or true or false, which are then its
// name.
class JsonRowReader {
 public:
  using Json = nlohmann::json;

  // `numbers`: a label may be any number, as one with a fraction.
  JsonRowReader(std::string_view text_key, std::string_view label_key, bool numbers = false)
      : text_key_(text_key), label_key_(label_key), numbers_(numbers) {}

  // What is wrong with the line, if something is: always text.row_json.
  std::optional<RowProblem> read(std::string_view line, std::string& text, std::string& label) {
    text_.reset();
    label_.reset();
    problem_.clear();
    depth_ = 0;
    field_ = Field::other;
    if (soma::detail::has_zero_byte(line)) refuse("a line with a zero byte");
    if (problem_.empty() && !Json::sax_parse(line.begin(), line.end(), this) && problem_.empty())
      refuse("no JSON");
    if (problem_.empty() && !text_) refuse("an object without " + soma::quoted(text_key_));
    if (problem_.empty() && !label_) refuse("an object without " + soma::quoted(label_key_));
    if (!problem_.empty())
      return RowProblem{error_id::text_row_json, problem_,
                        "an object with " + soma::quoted(text_key_) + ", a text, and " +
                            soma::quoted(label_key_) + ", a text or a " +
                            (numbers_ ? "" : "whole ") + "number"};
    text = std::move(*text_);
    label = std::move(*label_);
    return std::nullopt;
  }

  // Called by the parser.
  bool start_object(std::size_t) { return enter("an object"); }
  bool end_object() { return leave(); }
  bool start_array(std::size_t) {
    return depth_ == 0 ? refuse("a list, no object") : enter("a list");
  }
  bool end_array() { return leave(); }
  bool key(const std::string& name) {
    if (depth_ != 1) return true;
    field_ = name == text_key_ ? Field::text : name == label_key_ ? Field::label : Field::other;
    const bool twice = (field_ == Field::text && text_) || (field_ == Field::label && label_);
    return !twice || refuse("an object with " + soma::quoted(name) + " twice");
  }
  bool string(std::string& value) {
    if (depth_ == 0) return refuse("no object");
    if (depth_ == 1 && field_ == Field::text) text_ = std::move(value);
    if (depth_ == 1 && field_ == Field::label) label_ = std::move(value);
    return true;
  }
  bool number_unsigned(std::uint64_t value) { return name(std::to_string(value)); }
  bool number_integer(std::int64_t value) { return name(std::to_string(value)); }
  bool number_float(double, const std::string& digits) {
    return numbers_ ? name(digits) : other_value(digits);
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
    return false;
  }
  bool enter(std::string_view what) {
    if (depth_ == 1 && field_ != Field::other) return other_value(what);
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  bool name(std::string value) {
    if (depth_ == 1 && field_ == Field::label) {
      label_ = std::move(value);
      return true;
    }
    return other_value(value);
  }
  // A value that neither of the two fields may have.
  bool other_value(std::string_view value) {
    if (depth_ == 0) return refuse("no object");
    if (depth_ > 1 || field_ == Field::other) return true;
    return refuse(std::string(value) + " for " +
                  soma::quoted(field_ == Field::text ? text_key_ : label_key_));
  }

  std::string text_key_, label_key_;
  std::optional<std::string> text_, label_;
  bool numbers_;
  std::string problem_;  // of the first event that was refused
  std::size_t depth_ = 0;
  Field field_ = Field::other;
};

}  // namespace soma::text
