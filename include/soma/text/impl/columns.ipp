#pragma once
// The functions of columns.hpp.

#include <soma/base/contains.hpp>
#include <soma/text/columns.hpp>

#include <soma/base/number_text.hpp>
#include <soma/text/row_options.hpp>
#include <soma/text/rows/column_names.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

SOMA_INLINE std::optional<float> real_number(std::string_view text) {
  float value = 0;
  const auto [end, error] = number_from(text, value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
      !std::isfinite(value))
    return std::nullopt;
  return value;
}

}  // namespace SOMA_NAMESPACE::text

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE bool is_name(std::string_view column) {
  return !column.empty() && !whole_number(column);
}

SOMA_INLINE std::vector<std::string> text_columns_of(const RowOptions& options) {
  if (!options.text_columns.empty()) return options.text_columns;
  if (options.text_column.empty()) return {};
  return {options.text_column};
}

SOMA_INLINE bool gives_names(const RowOptions& options) {
  const std::vector<std::string> texts = text_columns_of(options);
  return std::any_of(texts.begin(), texts.end(), is_name) || is_name(options.label_column) ||
         is_name(options.pair_column) || !options.label_columns.empty();
}

SOMA_INLINE bool gives_columns(const RowOptions& options) {
  return !text_columns_of(options).empty() || !options.label_column.empty() ||
         !options.pair_column.empty() || !options.label_columns.empty();
}

SOMA_INLINE bool has_usual_name(Fields first) {
  return find_name(first, text_names, more_text_names) ||
         find_name(first, label_names, more_label_names);
}

SOMA_INLINE Columns ColumnFinder::find(const RowOptions& options) const {
  Columns columns{.count = first_.size()};
  for (const std::string& column : text_columns_of(options))
    columns.texts.push_back(
        *given(options.text_columns.empty() ? "text_column" : "text_columns", column));
  columns.pair = given("pair_column", options.pair_column);
  check_flags(options);
  for (const std::string& column : options.label_columns)
    columns.flags.push_back(*given("label_columns", column));
  std::optional<std::size_t> label = given("label_column", options.label_column);
  std::optional<std::size_t> text;
  if (has_header_ && columns.texts.empty()) text = find_name(first_, text_names, more_text_names);
  if (has_header_ && !label) label = find_name(first_, label_names, more_label_names);
  if (first_.size() == 2 && columns.texts.empty() && !text && !columns.pair)
    text = label ? 1 - *label : 0;
  const bool flags = !columns.flags.empty();
  if (flags && columns.texts.empty() && !text) text = only_other(columns);
  if (text && columns.texts.empty()) columns.texts.push_back(*text);
  if (!label && !flags) label = only_other(columns);
  if (columns.texts.empty() || (!label && !flags))
    fail(error_id::text_column, operation_, "table of " + soma::quoted(file_),
         std::to_string(first_.size()) + " columns wide",
         "2 columns, or text_column and label_column to say which (--text-column, "
         "--label-column)");
  columns.label = flags ? columns.flags.front() : *label;
  check_apart(columns);
  return columns;
}

SOMA_INLINE std::optional<std::size_t> ColumnFinder::given(std::string_view option,
                                                           std::string_view column) const {
  if (column.empty()) return std::nullopt;
  if (const auto number = whole_number(column)) {
    if (*number >= 1 && static_cast<std::uint64_t>(*number) <= first_.size())
      return static_cast<std::size_t>(*number - 1);
  } else if (has_header_) {
    for (std::size_t i = 0; i < first_.size(); ++i)
      if (trimmed(first_[i]) == column) return i;
  }
  fail(error_id::text_column, operation_, option, soma::quoted(column),
       std::string(has_header_ ? "a name of the header of " : "a column of ") +
           soma::quoted(file_) + " or a number from 1 to " + std::to_string(first_.size()));
}

SOMA_INLINE std::optional<std::size_t> ColumnFinder::only_other(const Columns& columns) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < columns.count; ++i) {
    if (contains(columns.texts, i) || columns.pair == i || contains(columns.flags, i)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

SOMA_INLINE void ColumnFinder::check_apart(const Columns& columns) const {
  std::vector<std::size_t> all = columns.texts;
  if (columns.pair) all.push_back(*columns.pair);
  if (!columns.flags.empty()) all.insert(all.end(), columns.flags.begin() + 1, columns.flags.end());
  const auto refuse_same = [&](std::string_view names, std::size_t column) {
    fail(error_id::text_column, operation_, names, "the same, " + std::to_string(column + 1),
         "two columns");
  };
  if (contains(all, columns.label)) refuse_same("text_column and label_column", columns.label);
  std::sort(all.begin(), all.end());
  if (const auto twice = std::adjacent_find(all.begin(), all.end()); twice != all.end())
    refuse_same("two of text_columns, pair_column and label_columns", *twice);
}

SOMA_INLINE void ColumnFinder::check_flags(const RowOptions& options) const {
  if (options.label_columns.empty()) return;
  if (options.labels != data::LabelKind::several)
    fail(error_id::text_column, operation_, "label_columns", "given for one label in each row",
         "several labels in each row (--multi-label)");
  if (!options.label_column.empty())
    fail(error_id::text_column, operation_, "label_column", "given beside label_columns",
         "one of them");
  if (!has_header_)
    fail(error_id::text_column, operation_, "label_columns", "given for a table without a header",
         "a header, whose names are the classes");
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE Columns find_columns(std::string_view operation, std::string_view file,
                                 const RowOptions& options, detail::Fields first, bool has_header) {
  return detail::ColumnFinder(operation, file, first, has_header).find(options);
}

}  // namespace SOMA_NAMESPACE::text
