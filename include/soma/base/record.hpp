#pragma once
// Record: a short list of named values, in the order in which they were set. Uses: the counters of
// a checkpoint, the settings of a run, one line of a log.

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

namespace soma {

// A value of one of five types; only the member that `kind` names has a meaning. (It is not a
// std::variant, because every unit that uses soma would pay for that header.)
struct RecordValue {
  enum class Kind : std::uint8_t { boolean, integer, count, number, text };

  Kind kind = Kind::boolean;
  bool boolean = false;
  std::int64_t integer = 0;
  std::uint64_t count = 0;
  double number = 0;
  std::string text{};
};

// A number as JSON writes it: the fewest digits that read back the same; "1.0", so that it stays a
// floating-point number; "NaN", "Infinity" and "-Infinity" stand in quotation marks.
inline std::string to_text(double value) {
  if (std::isnan(value)) return soma::quoted("NaN");
  if (std::isinf(value)) return soma::quoted(value > 0 ? "Infinity" : "-Infinity");
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text.append(".0");
  return text;
}

// A value as text, for messages: true, 12, 0.5, "text" (without escapes).
inline std::string to_text(const RecordValue& value) {
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

// Getters take time linear in the number of entries, because a record is small.
class Record {
 public:
  using Entry = std::pair<std::string, RecordValue>;

  // `purpose` names the record in messages: "progress", "line 3 of \"log.jsonl\"".
  explicit Record(std::string_view purpose = "record") : purpose_(purpose) {}

  // A new name is added at the end; a known name keeps its place.
  void set(std::string_view name, std::string_view text) {
    put(name, {.kind = Kind::text, .text = std::string(text)});
  }
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number>
  void set(std::string_view name, Number value) {
    if constexpr (std::same_as<Number, bool>)
      put(name, {.kind = Kind::boolean, .boolean = value});
    else if constexpr (std::floating_point<Number>)
      put(name, {.kind = Kind::number, .number = static_cast<double>(value)});
    else if constexpr (std::signed_integral<Number>)
      put(name, {.kind = Kind::integer, .integer = value});
    else
      put(name, {.kind = Kind::count, .count = value});
  }

  // The value of that name. A number may be read as any kind of number that holds it exactly,
  // because a file does not store the kind; number() also accepts the three texts of
  // to_text(double). Errors record.missing, record.type.
  bool boolean(std::string_view name) const {
    const RecordValue& value = at(name);
    if (value.kind != Kind::boolean) wrong_type(name, value, "true or false");
    return value.boolean;
  }
  std::int64_t integer(std::string_view name) const {
    const RecordValue& value = at(name);
    constexpr auto most = (std::numeric_limits<std::int64_t>::max)();
    if (value.kind == Kind::count && value.count <= static_cast<std::uint64_t>(most))
      return static_cast<std::int64_t>(value.count);
    if (value.kind != Kind::integer) wrong_type(name, value, "an integer of 64 bits");
    return value.integer;
  }
  std::uint64_t count(std::string_view name) const {
    const RecordValue& value = at(name);
    if (value.kind == Kind::integer && value.integer >= 0)
      return static_cast<std::uint64_t>(value.integer);
    if (value.kind != Kind::count)
      wrong_type(name, value, "an integer of 64 bits that is not negative");
    return value.count;
  }
  double number(std::string_view name) const {
    const RecordValue& value = at(name);
    if (const std::optional<double> known = as_number(value)) return *known;
    wrong_type(name, value, "a number that a double holds");
  }
  const std::string& text(std::string_view name) const {
    const RecordValue& value = at(name);
    if (value.kind != Kind::text) wrong_type(name, value, "a text");
    return value.text;
  }

  // The value of that name, of any type. Error record.missing, which lists the names.
  const RecordValue& at(std::string_view name) const {
    if (const RecordValue* value = find(name)) return *value;
    std::string wanted = entries_.empty() ? "a name in a record that has none" : "one of";
    for (const Entry& entry : entries_) wanted.append(" ").append(soma::quoted(entry.first));
    fail(error_id::record_missing, purpose_, "name", soma::quoted(name), wanted);
  }
  // The same, or nullptr if there is no such name.
  const RecordValue* find(std::string_view name) const {
    for (const Entry& entry : entries_)
      if (entry.first == name) return &entry.second;
    return nullptr;
  }
  bool contains(std::string_view name) const { return find(name) != nullptr; }

  const std::vector<Entry>& entries() const { return entries_; }
  const std::string& purpose() const { return purpose_; }

 private:
  using Kind = RecordValue::Kind;

  void put(std::string_view name, RecordValue value) {
    for (Entry& entry : entries_)
      if (entry.first == name) {
        entry.second = std::move(value);
        return;
      }
    entries_.emplace_back(name, std::move(value));
  }
  static std::optional<double> as_number(const RecordValue& value) {
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
  [[noreturn]] void wrong_type(std::string_view name, const RecordValue& value,
                               std::string_view wanted) const {
    fail(error_id::record_type, purpose_, soma::quoted(name), to_text(value), wanted);
  }

  std::string purpose_;
  std::vector<Entry> entries_;
};

}  // namespace soma
