#pragma once
// The functions of record_json.hpp.

#include <soma/io/record_json.hpp>

#include <soma/base/json_limits.hpp>
#include <soma/base/record.hpp>
#include <soma/io/json_text.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE bool RecordReader::start_object(std::size_t) {
  return inside_ ? refuse("has an object inside") : (inside_ = true);
}

SOMA_INLINE bool RecordReader::key(std::string& name) {
  if (record.contains(name)) return refuse("has the name " + soma::quoted(name) + " twice");
  name_ = std::move(name);
  return true;
}

SOMA_INLINE bool RecordReader::string(std::string& text) { return set(std::string_view(text)); }

SOMA_INLINE bool RecordReader::boolean(bool value) { return set(value); }

SOMA_INLINE bool RecordReader::number_unsigned(std::uint64_t number) { return set(number); }

SOMA_INLINE bool RecordReader::number_integer(std::int64_t number) { return set(number); }

SOMA_INLINE bool RecordReader::number_float(double number, const std::string&) {
  return set(number);
}

SOMA_INLINE bool RecordReader::null() { return refuse("has a null"); }

SOMA_INLINE bool RecordReader::start_array(std::size_t) { return refuse("has a list"); }

SOMA_INLINE bool RecordReader::binary(Json::binary_t&) { return refuse("has binary data"); }

SOMA_INLINE bool RecordReader::parse_error(std::size_t position, const std::string&,
                                           const nlohmann::detail::exception&) {
  return refuse("is no JSON at byte " + std::to_string(position));
}

SOMA_INLINE bool RecordReader::refuse(std::string why) {
  if (problem.empty()) problem = std::move(why);
  return false;
}

SOMA_INLINE std::string record_json_text(const Record& record, std::string_view content) {
  std::optional<std::string> text = json_text(content);
  if (!text)
    fail(error_id::record_text, record.purpose(), "text", soma::quoted(content), "valid UTF-8");
  return *std::move(text);
}

// A line with what number(value) writes for numbers and truth values.
template <class Number>
std::string record_line(const Record& record, const Number& number) {
  std::string line = "{";
  for (const auto& [name, value] : record.entries()) {
    if (line.size() > 1) line.append(", ");
    line.append(record_json_text(record, name)).append(": ");
    line.append(value.kind == RecordValue::Kind::text ? record_json_text(record, value.text)
                                                      : number(value));
  }
  line.push_back('}');
  return line;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE std::string to_json(const Record& record) {
  return detail::record_line(record, [](const RecordValue& value) { return to_text(value); });
}

SOMA_INLINE std::string to_json_with_null(const Record& record) {
  return detail::record_line(record, [](const RecordValue& value) {
    const bool none = value.kind == RecordValue::Kind::number && std::isnan(value.number);
    return none ? "null" : to_text(value);
  });
}

SOMA_INLINE Record record_from_json(std::string_view text, std::string_view purpose) {
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

}  // namespace SOMA_NAMESPACE
