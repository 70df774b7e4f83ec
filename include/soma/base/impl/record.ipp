#pragma once
// The functions of record.hpp.

#include <soma/base/record.hpp>

#include <soma/base/error.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::string to_text(double value) {
  if (std::isnan(value)) return soma::quoted("NaN");
  if (std::isinf(value)) return soma::quoted(value > 0 ? "Infinity" : "-Infinity");
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text.append(".0");
  return text;
}

SOMA_INLINE std::string to_text(const RecordValue& value) {
  switch (value.kind) {
    case RecordValue::Kind::boolean:
      return value.boolean ? "true" : "false";
    case RecordValue::Kind::integer:
      return std::to_string(value.integer);
    case RecordValue::Kind::count:
      return std::to_string(value.count);
    case RecordValue::Kind::number:
      return to_text(value.number);
    case RecordValue::Kind::text:
      break;
  }
  return soma::quoted(value.text);
}

SOMA_INLINE void Record::set(std::string_view name, std::string_view text) {
  put(name, {.kind = Kind::text, .text = std::string(text)});
}

SOMA_INLINE bool Record::boolean(std::string_view name) const {
  const RecordValue& value = at(name);
  if (value.kind != Kind::boolean) wrong_type(name, value, "true or false");
  return value.boolean;
}

SOMA_INLINE std::int64_t Record::integer(std::string_view name) const {
  const RecordValue& value = at(name);
  constexpr auto most = (std::numeric_limits<std::int64_t>::max)();
  if (value.kind == Kind::count && value.count <= static_cast<std::uint64_t>(most))
    return static_cast<std::int64_t>(value.count);
  if (value.kind != Kind::integer) wrong_type(name, value, "an integer of 64 bits");
  return value.integer;
}

SOMA_INLINE std::uint64_t Record::count(std::string_view name) const {
  const RecordValue& value = at(name);
  if (value.kind == Kind::integer && value.integer >= 0)
    return static_cast<std::uint64_t>(value.integer);
  if (value.kind != Kind::count)
    wrong_type(name, value, "an integer of 64 bits that is not negative");
  return value.count;
}

SOMA_INLINE double Record::number(std::string_view name) const {
  const RecordValue& value = at(name);
  if (const std::optional<double> known = as_number(value)) return *known;
  wrong_type(name, value, "a number that a double holds");
}

SOMA_INLINE const std::string& Record::text(std::string_view name) const {
  const RecordValue& value = at(name);
  if (value.kind != Kind::text) wrong_type(name, value, "a text");
  return value.text;
}

SOMA_INLINE const RecordValue& Record::at(std::string_view name) const {
  if (const RecordValue* value = find(name)) return *value;
  std::string wanted = entries_.empty() ? "a name in a record that has none" : "one of";
  for (const Entry& entry : entries_) wanted.append(" ").append(soma::quoted(entry.first));
  fail(error_id::record_missing, purpose_, "name", soma::quoted(name), wanted);
}

SOMA_INLINE const RecordValue* Record::find(std::string_view name) const {
  for (const Entry& entry : entries_)
    if (entry.first == name) return &entry.second;
  return nullptr;
}

SOMA_INLINE bool Record::contains(std::string_view name) const { return find(name) != nullptr; }

SOMA_INLINE void Record::put(std::string_view name, RecordValue value) {
  for (Entry& entry : entries_)
    if (entry.first == name) {
      entry.second = std::move(value);
      return;
    }
  entries_.emplace_back(name, std::move(value));
}

SOMA_INLINE std::optional<double> Record::as_number(const RecordValue& value) {
  constexpr std::int64_t exact = std::int64_t{1} << std::numeric_limits<double>::digits;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (value.kind == Kind::number) return value.number;
  if (value.kind == Kind::integer && value.integer >= -exact && value.integer <= exact)
    return static_cast<double>(value.integer);
  if (value.kind == Kind::count && value.count <= static_cast<std::uint64_t>(exact))
    return static_cast<double>(value.count);
  if (value.kind == Kind::text && value.text == "NaN")
    return std::numeric_limits<double>::quiet_NaN();
  if (value.kind == Kind::text && value.text == "Infinity") return infinity;
  if (value.kind == Kind::text && value.text == "-Infinity") return -infinity;
  return std::nullopt;
}

SOMA_INLINE void Record::wrong_type(std::string_view name, const RecordValue& value,
                                    std::string_view wanted) const {
  fail(error_id::record_type, purpose_, soma::quoted(name), to_text(value), wanted);
}

}  // namespace SOMA_NAMESPACE
