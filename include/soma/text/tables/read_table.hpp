#pragma once
// read_table(): a CSV file with a header as a Table.

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

namespace soma::text {

// The kinds of columns. A column in neither list holds numbers if each cell is a number or missing,
// and otherwise categories. (One mistyped number would turn it into categories: for a column in
// `numbers` it is an error with its line instead.)
struct TableOptions {
  char separator = ',';
  std::vector<std::string> numbers{}, categories{};  // names of columns
  std::vector<std::string> left_out{};               // columns that are not read
  // Cells that mean a missing value, without the spaces around them.
  std::vector<std::string> missing{"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"};
  std::size_t max_columns = 4096;
  std::size_t max_categories = 1000;  // categories of a column
  std::size_t max_rows = std::size_t{1} << 26;
  std::size_t max_row_bytes = std::size_t{1} << 20;  // as the row lies in the file, unpacked
  const StopFlag* stop = nullptr;  // ends the reading with runtime.stopped; nullptr: nothing does
};

namespace detail {

// The cell as a finite number, such as "3", "-0.5", "+1e-3"; not set if it is none.
inline std::optional<double> table_number(std::string_view cell) {
  if (cell.starts_with('+') && !cell.starts_with("+-")) cell.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (cell.empty() || error != std::errc() || end != cell.data() + cell.size() ||
      !std::isfinite(value))
    return std::nullopt;
  return value;
}

// The implementation of read_table: the first pass finds the kinds of columns, the second reads the
// values, so that numbers are never kept as text.
class TableReader {
 public:
  TableReader(std::string_view name, const TableOptions& options) : options_(options), name_(name) {
    result_.source = name;
  }

  // `open` returns the bytes from the beginning, for each pass.
  template <class Open>
  Table read(const Open& open) {
    pass(open(), [&](Record& row) { look(row); });
    if (result_.rows == 0)
      fail(error_id::text_file_empty, operation, "file", soma::quoted(name_),
           "a header and a row at least");
    start_columns();
    pass(open(), [&](Record& row) { take(row); });
    finish_columns();
    return std::move(result_);
  }

 private:
  static constexpr std::string_view operation = "read_table";

  // A column of the file, and the place for its values.
  struct Place {
    std::string name{};
    bool left_out = false;
    std::optional<ColumnKind> said{};
    bool all_numbers = true;
    std::uint64_t first_text_line = 0;  // the line of the first cell that is not a number
    std::string first_text{};
    std::size_t column = 0;
    std::unordered_map<std::string, std::int32_t> codes{};
  };

  template <class Use>
  void pass(ByteSource bytes, const Use& use) {
    RecordReader reader(std::move(bytes), options_.max_row_bytes, options_.separator);
    Record record;
    const auto next = [&] { return reader.next_csv(record); };
    if (!next())
      fail(error_id::text_file_empty, operation, "file", soma::quoted(name_),
           "a header and a row at least");
    check(record);
    if (places_.empty()) read_header(record);
    rows_ = 0;
    while (next()) {
      check_stop(options_.stop, operation);
      check(record);
      if (record.fields.size() != places_.size())
        fail(error_id::text_row_columns, operation, where(record),
             std::to_string(record.fields.size()) + " columns",
             std::to_string(places_.size()) + ", as the header has");
      if (++rows_ > options_.max_rows)
        fail(error_id::table_size, operation, "rows of " + soma::quoted(name_),
             "more than " + std::to_string(options_.max_rows), "at most that (max_rows)");
      use(record);
    }
  }
  std::string where(const Record& record) const {
    return "line " + std::to_string(record.line) + " of " + soma::quoted(name_);
  }
  std::string cell_of(const Record& record, const Place& place) const {
    return "column " + soma::quoted(place.name) + " in " + where(record);
  }
  void check(const Record& record) const {
    if (record.problem)
      fail(record.problem->reason, operation, where(record), record.problem->given,
           record.problem->wanted);
    for (const std::string& field : record.fields)
      if (find_invalid_utf8(field) != std::string_view::npos)
        fail(error_id::text_row_encoding, operation, where(record),
             "with a zero byte, or bytes that are not UTF-8", "UTF-8");
  }

  void read_header(const Record& record) {
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

  bool is_missing(std::string_view cell) const {
    return std::ranges::find(options_.missing, cell) != options_.missing.end();
  }
  // The first pass.
  void look(const Record& record) {
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
  void start_columns() {
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
  // The second pass. (If the file was written to in between, reading has already ended with an
  // error.)
  void take(const Record& record) {
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
  std::int32_t code_of(const Record& record, Place& place, std::string_view cell) const {
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
  // Categories have numbers in the order of appearance, and now get numbers in sorted order.
  void finish_columns() {
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

  const TableOptions& options_;
  std::string name_;
  std::vector<Place> places_{};
  std::size_t rows_ = 0;
  Table result_{};
};

}  // namespace detail

// Reads a table in RFC 4180, or gzip of it. The first row names the columns; spaces around cells
// are removed and blank lines are ignored. The file is read twice. Errors text.row_columns,
// text.row_quote, text.row_encoding, text.row_too_long, all with file and line; table.column (names
// that are empty, repeated or all numbers; names in the options that the header lacks), table.cell
// (a cell that is no number in a column of `numbers`), table.categories, table.size,
// text.file_empty, file.read, text.file_gzip, text.file_changed, runtime.stopped.
inline Table read_table(std::string_view path, const TableOptions& options = {}) {
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
// The same for a text in memory.
inline Table read_table_text(std::string_view content, const TableOptions& options = {}) {
  return detail::TableReader("memory", options).read([&] {
    return ByteSource::of_memory("read_table", content);
  });
}

}  // namespace soma::text
