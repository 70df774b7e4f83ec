#pragma once
// A Record as a line of JSON, and back: one object without nested values.

#include <soma/base/json_limits.hpp>
#include <soma/base/record.hpp>
#include <soma/io/json_text.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace soma {

namespace detail {

// Receives the events of the parser.
class RecordReader {
 public:
  using Json = nlohmann::json;

  explicit RecordReader(std::string_view purpose) : record(purpose) {}

  Record record;
  std::string problem;  // why the first event was refused

  bool start_object(std::size_t) {
    return inside_ ? refuse("has an object inside") : (inside_ = true);
  }
  bool end_object() { return true; }
  bool key(std::string& name) {
    if (record.contains(name)) return refuse("has the name " + soma::quoted(name) + " twice");
    name_ = std::move(name);
    return true;
  }
  bool string(std::string& text) { return set(std::string_view(text)); }
  bool boolean(bool value) { return set(value); }
  bool number_unsigned(std::uint64_t number) { return set(number); }
  bool number_integer(std::int64_t number) { return set(number); }
  bool number_float(double number, const std::string&) { return set(number); }
  bool null() { return refuse("has a null"); }
  bool start_array(std::size_t) { return refuse("has a list"); }
  bool end_array() { return true; }
  bool binary(Json::binary_t&) { return refuse("has binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
    return refuse("is no JSON at byte " + std::to_string(position));
  }

 private:
  template <class Value>
  bool set(Value value) {
    if (!inside_) return refuse("is no object");
    record.set(name_, value);
    return true;
  }
  bool refuse(std::string why) {
    if (problem.empty()) problem = std::move(why);
    return false;
  }

  bool inside_ = false;
  std::string name_;
};

inline std::string record_json_text(const Record& record, std::string_view content) {
  std::optional<std::string> text = json_text(content);
  if (!text)
    fail(error_id::record_text, record.purpose(), "text", soma::quoted(content), "valid UTF-8");
  return *std::move(text);
}

}  // namespace detail

// One line, without an end of line: {"step": 12, "loss": 0.25}. Entries keep their order; numbers
// have the fewest digits that read back exactly; NaN and infinities are texts ("NaN"), because JSON
// has none. Error record.text: a name or a text is not UTF-8.
inline std::string to_json(const Record& record) {
  std::string line = "{";
  for (const auto& [name, value] : record.entries()) {
    if (line.size() > 1) line.append(", ");
    line.append(detail::record_json_text(record, name)).append(": ");
    line.append(value.kind == RecordValue::Kind::text ? detail::record_json_text(record, value.text)
                                                      : to_text(value));
  }
  line.push_back('}');
  return line;
}

// Reads a record from a text. `purpose` names the record in messages, now and later. Error
// record.json: the text is not one flat object of texts, numbers and truth values with different
// names.
inline Record record_from_json(std::string_view text, std::string_view purpose) {
  detail::RecordReader reader(purpose);
  if (detail::has_zero_byte(text))
    reader.problem = "has a zero byte";
  else if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader) && reader.problem.empty())
    reader.problem = "is no JSON";
  if (!reader.problem.empty())
    fail(error_id::record_json, purpose, "text", "a text that " + reader.problem,
         "a JSON object of plain values");
  return std::move(reader.record);
}

}  // namespace soma
