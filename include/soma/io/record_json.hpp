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

namespace SOMA_NAMESPACE {

namespace detail {

// Receives the events of the parser.
class RecordReader {
 public:
  using Json = nlohmann::json;

  explicit RecordReader(std::string_view purpose) : record(purpose) {}

  Record record;
  std::string problem;  // why the first event was refused

  bool start_object(std::size_t);
  bool end_object() { return true; }
  bool key(std::string& name);
  bool string(std::string& text);
  bool boolean(bool value);
  bool number_unsigned(std::uint64_t number);
  bool number_integer(std::int64_t number);
  bool number_float(double number, const std::string&);
  bool null();
  bool start_array(std::size_t);
  bool end_array() { return true; }
  bool binary(Json::binary_t&);
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&);

 private:
  template <class Value>
  bool set(Value value) {
    if (!inside_) return refuse("is no object");
    record.set(name_, value);
    return true;
  }
  bool refuse(std::string why);

  bool inside_ = false;
  std::string name_;
};

std::string record_json_text(const Record& record, std::string_view content);

}  // namespace detail

// One line, without an end of line: {"step": 12, "loss": 0.25}. Entries keep their order; numbers
// have the fewest digits that read back exactly; NaN and infinities are texts ("NaN"), because JSON
// has none. Error record.text: a name or a text is not UTF-8.
std::string to_json(const Record& record);
// The same, with null for NaN, as a value that is not defined.
std::string to_json_with_null(const Record& record);

// Reads a record from a text. `purpose` names the record in messages, now and later. Error
// record.json: the text is not one flat object of texts, numbers and truth values with different
// names.
Record record_from_json(std::string_view text, std::string_view purpose);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/record_json.ipp>
#endif
