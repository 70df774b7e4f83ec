#pragma once
// The functions of read_table.hpp.

#include <soma/base/contains.hpp>
#include <soma/text/tables/read_table.hpp>

#include <soma/base/number_text.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/text/columns.hpp>
#include <soma/text/record_reader.hpp>
#include <soma/text/rows/sort_labels.hpp>
#include <soma/text/tables/table.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE std::optional<double> table_number(std::string_view cell) {
  if (cell.starts_with('+') && !cell.starts_with("+-")) cell.remove_prefix(1);
  double value = 0;
  const auto [end, error] = number_from(cell, value);
  if (cell.empty() || error != std::errc() || end != cell.data() + cell.size() ||
      !std::isfinite(value))
    return std::nullopt;
  return value;
}

SOMA_INLINE std::string TableReader::where(const Record& record) const {
  return "line " + std::to_string(record.line) + " of " + soma::quoted(name_);
}

SOMA_INLINE std::string TableReader::cell_of(const Record& record,
                                             const FileColumn& file_column) const {
  return "column " + soma::quoted(file_column.name) + " in " + where(record);
}

SOMA_INLINE void TableReader::check(const Record& record) const {
  if (record.problem)
    fail(record.problem->reason, operation, where(record), record.problem->given,
         record.problem->wanted);
  for (const std::string& field : record.fields)
    if (find_invalid_utf8(field) != std::string_view::npos)
      fail(error_id::text_row_encoding, operation, where(record),
           "with a zero byte, or bytes that are not UTF-8", "UTF-8");
}

SOMA_INLINE void TableReader::read_header(const Record& record) {
  if (record.fields.size() > options_.max_columns)
    fail(error_id::table_size, operation, "columns of " + soma::quoted(name_),
         std::to_string(record.fields.size()),
         "at most " + std::to_string(options_.max_columns) + " (max_columns)");
  std::unordered_map<std::string_view, std::size_t> known;
  bool all_numbers = true;
  for (const std::string& field : record.fields) {
    FileColumn file_column;
    file_column.name = trimmed(field);
    all_numbers = all_numbers && table_number(file_column.name).has_value();
    file_columns_.push_back(std::move(file_column));
  }
  if (all_numbers)
    fail(error_id::table_column, operation, "header of " + soma::quoted(name_), "all numbers",
         "names of columns in the first row");
  for (std::size_t i = 0; i < file_columns_.size(); ++i) {
    const bool is_new = known.emplace(file_columns_[i].name, i).second;
    if (file_columns_[i].name.empty() || !is_new)
      fail(error_id::table_column, operation,
           "name of column " + std::to_string(i + 1) + " of " + soma::quoted(name_),
           soma::quoted(file_columns_[i].name) + (is_new ? "" : ", which another column has"),
           "a name of its own");
  }
  const auto mark = [&](const std::vector<std::string>& names, const auto& how) {
    for (const std::string& name : names) {
      const auto found = known.find(name);
      if (found == known.end())
        fail(error_id::table_column, operation, "column of " + soma::quoted(name_),
             soma::quoted(name), "a name of the header");
      how(file_columns_[found->second]);
    }
  };
  mark(options_.numbers, [](FileColumn& file_column) { file_column.said = ColumnKind::number; });
  mark(options_.categories,
       [](FileColumn& file_column) { file_column.said = ColumnKind::category; });
  mark(options_.left_out, [](FileColumn& file_column) { file_column.left_out = true; });
}

SOMA_INLINE bool TableReader::is_missing(std::string_view cell) const {
  return contains(options_.missing, cell);
}

SOMA_INLINE void TableReader::look(const Record& record) {
  ++result_.rows;
  for (std::size_t i = 0; i < file_columns_.size(); ++i) {
    FileColumn& file_column = file_columns_[i];
    if (file_column.left_out || file_column.said == ColumnKind::category) continue;
    if (!file_column.said && !file_column.all_numbers) continue;
    const std::string_view cell = trimmed(record.fields[i]);
    if (is_missing(cell) || table_number(cell)) continue;
    if (file_column.said)
      fail(error_id::table_cell, operation, cell_of(record, file_column), soma::quoted(cell),
           "a finite number, or a missing value");
    file_column.all_numbers = false;
    file_column.first_text_line = record.line;
    file_column.first_text = cell;
  }
}

SOMA_INLINE void TableReader::start_columns() {
  for (FileColumn& file_column : file_columns_) {
    if (file_column.left_out) continue;
    file_column.column = result_.columns.size();
    TableColumn& column = result_.columns.emplace_back();
    column.name = file_column.name;
    column.kind = file_column.said.value_or(file_column.all_numbers ? ColumnKind::number
                                                                    : ColumnKind::category);
    if (column.kind == ColumnKind::number)
      column.numbers.reserve(result_.rows);
    else
      column.codes.reserve(result_.rows);
  }
}

SOMA_INLINE void TableReader::take(const Record& record) {
  for (std::size_t i = 0; i < file_columns_.size(); ++i) {
    FileColumn& file_column = file_columns_[i];
    if (file_column.left_out) continue;
    TableColumn& column = result_.columns[file_column.column];
    const std::string_view cell = trimmed(record.fields[i]);
    const bool missing = is_missing(cell);
    if (column.kind == ColumnKind::number) {
      const std::optional<double> number = missing ? std::nullopt : table_number(cell);
      column.numbers.push_back(number.value_or(std::numeric_limits<double>::quiet_NaN()));
    } else {
      column.codes.push_back(missing ? -1 : code_of(record, file_column, cell));
    }
  }
}

SOMA_INLINE std::int32_t TableReader::code_of(const Record& record, FileColumn& file_column,
                                              std::string_view cell) const {
  const auto [at, is_new] = file_column.codes.try_emplace(
      std::string(cell), static_cast<std::int32_t>(file_column.codes.size()));
  if (is_new && file_column.codes.size() > options_.max_categories)
    fail(
        error_id::table_categories, operation, cell_of(record, file_column),
        "one of more than " + std::to_string(options_.max_categories) + " categories" +
            (file_column.first_text_line == 0
                 ? ""
                 : "; the first cell that is no number is " + soma::quoted(file_column.first_text) +
                       " in line " + std::to_string(file_column.first_text_line)),
        "at most max_categories, a column of numbers, or a column that is left out");
  return at->second;
}

SOMA_INLINE void TableReader::finish_columns() {
  for (const FileColumn& file_column : file_columns_) {
    if (file_column.left_out) continue;
    TableColumn& column = result_.columns[file_column.column];
    if (column.kind == ColumnKind::number) continue;
    for (const auto& [name, code] : file_column.codes) column.categories.push_back(name);
    sort_labels(column.categories);
    std::vector<std::int32_t> sorted(file_column.codes.size());
    for (std::size_t i = 0; i < column.categories.size(); ++i)
      sorted[static_cast<std::size_t>(file_column.codes.at(column.categories[i]))] =
          static_cast<std::int32_t>(i);
    for (std::int32_t& code : column.codes)
      if (code >= 0) code = sorted[static_cast<std::size_t>(code)];
  }
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE Table read_table(std::string_view path, const TableOptions& options) {
  ByteSource first = ByteSource::open("read_table", path, options.stop);
  if (first.is_once()) {  // a second pass needs the text
    const std::string text = first.rest();
    return detail::TableReader(first.name(), options).read([&] {
      return ByteSource::of_memory("read_table", text, first.name());
    });
  }
  const FileState state = first.state();
  return detail::TableReader(path, options).read([&] {
    ByteSource bytes = ByteSource::open("read_table", path, options.stop);
    if (!(bytes.state() == state))
      fail(error_id::text_file_changed, "read_table", "file",
           soma::quoted(path) + ", which was written to while it was read", "a file that rests");
    return bytes;
  });
}

SOMA_INLINE Table read_table_text(std::string_view content, const TableOptions& options) {
  return detail::TableReader("memory", options).read([&] {
    return ByteSource::of_memory("read_table", content);
  });
}

}  // namespace SOMA_NAMESPACE::text
