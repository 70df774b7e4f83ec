#pragma once
// The functions of read_table.hpp.

#include <soma/text/tables/read_table.hpp>

#include <soma/runtime/stop_flag.hpp>
#include <soma/text/columns.hpp>
#include <soma/text/record_reader.hpp>
#include <soma/text/rows/sort_labels.hpp>
#include <soma/text/tables/table.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <charconv>
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
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (cell.empty() || error != std::errc() || end != cell.data() + cell.size() ||
      !std::isfinite(value))
    return std::nullopt;
  return value;
}

SOMA_INLINE std::string TableReader::where(const Record& record) const {
  return "line " + std::to_string(record.line) + " of " + soma::quoted(name_);
}

SOMA_INLINE std::string TableReader::cell_of(const Record& record, const Place& place) const {
  return "column " + soma::quoted(place.name) + " in " + where(record);
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
    Place place;
    place.name = trimmed(field);
    all_numbers = all_numbers && table_number(place.name).has_value();
    places_.push_back(std::move(place));
  }
  if (all_numbers)
    fail(error_id::table_column, operation, "header of " + soma::quoted(name_), "all numbers",
         "names of columns in the first row");
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const bool is_new = known.emplace(places_[i].name, i).second;
    if (places_[i].name.empty() || !is_new)
      fail(error_id::table_column, operation,
           "name of column " + std::to_string(i + 1) + " of " + soma::quoted(name_),
           soma::quoted(places_[i].name) + (is_new ? "" : ", which another column has"),
           "a name of its own");
  }
  const auto mark = [&](const std::vector<std::string>& names, const auto& how) {
    for (const std::string& name : names) {
      const auto found = known.find(name);
      if (found == known.end())
        fail(error_id::table_column, operation, "column of " + soma::quoted(name_),
             soma::quoted(name), "a name of the header");
      how(places_[found->second]);
    }
  };
  mark(options_.numbers, [](Place& place) { place.said = ColumnKind::number; });
  mark(options_.categories, [](Place& place) { place.said = ColumnKind::category; });
  mark(options_.left_out, [](Place& place) { place.left_out = true; });
}

SOMA_INLINE bool TableReader::is_missing(std::string_view cell) const {
  return std::ranges::find(options_.missing, cell) != options_.missing.end();
}

SOMA_INLINE void TableReader::look(const Record& record) {
  ++result_.rows;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    if (place.left_out || place.said == ColumnKind::category) continue;
    if (!place.said && !place.all_numbers) continue;
    const std::string_view cell = trimmed(record.fields[i]);
    if (is_missing(cell) || table_number(cell)) continue;
    if (place.said)
      fail(error_id::table_cell, operation, cell_of(record, place), soma::quoted(cell),
           "a finite number, or a missing value");
    place.all_numbers = false;
    place.first_text_line = record.line;
    place.first_text = cell;
  }
}

SOMA_INLINE void TableReader::start_columns() {
  for (Place& place : places_) {
    if (place.left_out) continue;
    place.column = result_.columns.size();
    TableColumn& column = result_.columns.emplace_back();
    column.name = place.name;
    column.kind =
        place.said.value_or(place.all_numbers ? ColumnKind::number : ColumnKind::category);
    if (column.kind == ColumnKind::number)
      column.numbers.reserve(result_.rows);
    else
      column.codes.reserve(result_.rows);
  }
}

SOMA_INLINE void TableReader::take(const Record& record) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    if (place.left_out) continue;
    TableColumn& column = result_.columns[place.column];
    const std::string_view cell = trimmed(record.fields[i]);
    const bool missing = is_missing(cell);
    if (column.kind == ColumnKind::number) {
      const std::optional<double> number = missing ? std::nullopt : table_number(cell);
      column.numbers.push_back(number.value_or(std::numeric_limits<double>::quiet_NaN()));
    } else {
      column.codes.push_back(missing ? -1 : code_of(record, place, cell));
    }
  }
}

SOMA_INLINE std::int32_t TableReader::code_of(const Record& record, Place& place,
                                              std::string_view cell) const {
  const auto [at, is_new] =
      place.codes.try_emplace(std::string(cell), static_cast<std::int32_t>(place.codes.size()));
  if (is_new && place.codes.size() > options_.max_categories)
    fail(error_id::table_categories, operation, cell_of(record, place),
         "one of more than " + std::to_string(options_.max_categories) + " categories" +
             (place.first_text_line == 0
                  ? ""
                  : "; the first cell that is no number is " + soma::quoted(place.first_text) +
                        " in line " + std::to_string(place.first_text_line)),
         "at most max_categories, a column of numbers, or a column that is left out");
  return at->second;
}

SOMA_INLINE void TableReader::finish_columns() {
  for (const Place& place : places_) {
    if (place.left_out) continue;
    TableColumn& column = result_.columns[place.column];
    if (column.kind == ColumnKind::number) continue;
    for (const auto& [name, code] : place.codes) column.categories.push_back(name);
    sort_labels(column.categories);
    std::vector<std::int32_t> sorted(place.codes.size());
    for (std::size_t i = 0; i < column.categories.size(); ++i)
      sorted[static_cast<std::size_t>(place.codes.at(column.categories[i]))] =
          static_cast<std::int32_t>(i);
    for (std::int32_t& code : column.codes)
      if (code >= 0) code = sorted[static_cast<std::size_t>(code)];
  }
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE Table read_table(std::string_view path, const TableOptions& options) {
  FileState first;
  bool again = false;
  return detail::TableReader(path, options).read([&] {
    ByteSource bytes = ByteSource::open("read_table", path, options.stop);
    if (again && !(bytes.state() == first))
      fail(error_id::text_file_changed, "read_table", "file",
           soma::quoted(path) + ", which was written to while it was read", "a file that rests");
    first = bytes.state();
    again = true;
    return bytes;
  });
}

SOMA_INLINE Table read_table_text(std::string_view content, const TableOptions& options) {
  return detail::TableReader("memory", options).read([&] {
    return ByteSource::of_memory("read_table", content);
  });
}

}  // namespace SOMA_NAMESPACE::text
