#pragma once
// Which columns of a table hold the text and the label, and whether its first row names them.

#include <soma/text/row_options.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace soma::text {

// The text as a whole number in decimal, or none.
inline std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The text as a number that a float holds, or none: "0.5", "-3", "1e-2".
inline std::optional<float> real_number(std::string_view text) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
      !std::isfinite(value))
    return std::nullopt;
  return value;
}

// Without the spaces and tabs around it.
inline std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

struct Columns {
  std::size_t count = 0, text = 0, label = 1;  // from 0
};

namespace detail {

using Fields = std::span<const std::string>;
inline constexpr std::array<std::string_view, 5> text_names = {"text", "sentence", "review",
                                                               "content", "comment"};
inline constexpr std::array<std::string_view, 4> label_names = {"label", "class", "category",
                                                                "sentiment"};

// Where the first field lies that has one of the names, in whatever case.
inline std::optional<std::size_t> find_name(Fields fields,
                                            std::span<const std::string_view> names) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (std::size_t i = 0; i < fields.size(); ++i)
    for (const std::string_view name : names)
      if (std::ranges::equal(trimmed(fields[i]), name, {}, lower)) return i;
  return std::nullopt;
}

inline bool is_name(std::string_view column) { return !column.empty() && !whole_number(column); }

// What an option says; none: it says nothing. Error text.column.
inline std::optional<std::size_t> given_column(std::string_view operation, std::string_view file,
                                               std::string_view option, std::string_view column,
                                               Fields fields, bool has_header) {
  if (column.empty()) return std::nullopt;
  if (const auto number = whole_number(column)) {
    if (*number >= 1 && static_cast<std::uint64_t>(*number) <= fields.size())
      return static_cast<std::size_t>(*number - 1);
  } else if (has_header) {
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (trimmed(fields[i]) == column) return i;
  }
  fail(error_id::text_column, operation, option, soma::quoted(column),
       std::string(has_header ? "a name of the header of " : "a column of ") + soma::quoted(file) +
           " or a number from 1 to " + std::to_string(fields.size()));
}

}  // namespace detail

// Whether the first row is a header, by the rule of RowOptions. `second` may be empty.
inline bool is_header(const RowOptions& options, detail::Fields first, detail::Fields second,
                      std::size_t label) {
  if (options.header != Header::detect) return options.header == Header::present;
  if (detail::is_name(options.text_column) || detail::is_name(options.label_column)) return true;
  const auto text_name = detail::find_name(first, detail::text_names);
  const auto label_name = detail::find_name(first, detail::label_names);
  if (text_name && label_name && *text_name != *label_name) return true;
  const auto is_number = [&](std::string_view cell) {
    return options.labels == data::LabelKind::number ? real_number(trimmed(cell)).has_value()
                                                     : whole_number(trimmed(cell)).has_value();
  };
  return label < first.size() && label < second.size() && !is_number(first[label]) &&
         is_number(second[label]);
}

// The columns of a table whose first row is `first`. Error text.column (no such column, one for
// both, or more than two and no telling which).
inline Columns find_columns(std::string_view operation, std::string_view file,
                            const RowOptions& options, detail::Fields first, bool has_header) {
  auto text =
      detail::given_column(operation, file, "text_column", options.text_column, first, has_header);
  auto label = detail::given_column(operation, file, "label_column", options.label_column, first,
                                    has_header);
  if (has_header && !text) text = detail::find_name(first, detail::text_names);
  if (has_header && !label) label = detail::find_name(first, detail::label_names);
  if (first.size() == 2) {
    if (!text) text = label ? 1 - *label : 0;
    if (!label) label = 1 - *text;
  }
  if (!text || !label)
    fail(error_id::text_column, operation, "table of " + soma::quoted(file),
         std::to_string(first.size()) + " columns wide",
         "2 columns, or text_column and label_column to say which");
  if (*text == *label)
    fail(error_id::text_column, operation, "text_column and label_column",
         "the same, " + std::to_string(*text + 1), "two columns");
  return {first.size(), *text, *label};
}

}  // namespace soma::text
