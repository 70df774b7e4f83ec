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

namespace SOMA_NAMESPACE::text {

// Receives the parser's events and keeps the text and label fields of the object. Texts are JSON
// strings. The label is a string, a number or true or false, which then are its name as they are
// written; or a list of these, if rows have several labels.
class JsonRowReader {
 public:
  using Json = nlohmann::json;

  // The options name the keys; "text" and "label" by default.
  explicit JsonRowReader(const RowOptions& options = {});

  // The content of the line.
  std::vector<std::string>& texts() { return found_; }
  std::string& pair();
  std::size_t text_count() const { return texts_; }
  const std::string& label() const { return label_; }
  const std::vector<std::string>& labels() const { return labels_; }
  bool is_list() const { return is_list_; }

  // Reads a line; returns its problem, if there is one: always text.row_json.
  std::optional<RowProblem> read(std::string_view line);

  // Called by the parser.
  bool start_object(std::size_t);
  bool end_object();
  bool start_array(std::size_t);
  bool end_array();
  bool key(const std::string& name);
  bool string(std::string& value);
  bool number_unsigned(std::uint64_t value);
  bool number_integer(std::int64_t value);
  bool number_float(double, const std::string& digits);
  bool boolean(bool value);
  bool null();
  bool binary(Json::binary_t&);
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&);

 private:
  enum class Field : std::uint8_t { other, text, label };

  bool refuse(std::string problem);
  bool enter(std::string_view what);
  bool leave();
  void take_label(std::string value);
  bool name(std::string value);
  // A value that no text or label may have.
  bool other_value(std::string_view value);

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

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/json_row.ipp>
#endif
