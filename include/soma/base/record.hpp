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

namespace SOMA_NAMESPACE {

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
std::string to_text(double value);

// A value as text, for messages: true, 12, 0.5, "text" (without escapes).
std::string to_text(const RecordValue& value);

// Getters take time linear in the number of entries, because a record is small.
class Record {
 public:
  using Entry = std::pair<std::string, RecordValue>;

  // `purpose` names the record in messages: "progress", "line 3 of \"log.jsonl\"".
  explicit Record(std::string_view purpose = "record") : purpose_(purpose) {}

  // A new name is added at the end; a known name keeps its place.
  void set(std::string_view name, std::string_view text);
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
  bool boolean(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::uint64_t count(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;

  // The value of that name, of any type. Error record.missing, which lists the names.
  const RecordValue& at(std::string_view name) const;
  // The same, or nullptr if there is no such name.
  const RecordValue* find(std::string_view name) const;
  bool contains(std::string_view name) const;

  const std::vector<Entry>& entries() const { return entries_; }
  const std::string& purpose() const { return purpose_; }

 private:
  using Kind = RecordValue::Kind;

  void put(std::string_view name, RecordValue value);
  static std::optional<double> as_number(const RecordValue& value);
  [[noreturn]] void wrong_type(std::string_view name, const RecordValue& value,
                               std::string_view wanted) const;

  std::string purpose_;
  std::vector<Entry> entries_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/base/impl/record.ipp>
#endif
