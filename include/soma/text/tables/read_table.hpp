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

namespace SOMA_NAMESPACE::text {

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
std::optional<double> table_number(std::string_view cell);

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

  // A column of the file, and its values.
  struct FileColumn {
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
    if (file_columns_.empty()) read_header(record);
    rows_ = 0;
    while (next()) {
      check_stop(options_.stop, operation);
      check(record);
      if (record.fields.size() != file_columns_.size())
        fail(error_id::text_row_columns, operation, where(record),
             std::to_string(record.fields.size()) + " columns",
             std::to_string(file_columns_.size()) + ", as the header has");
      if (++rows_ > options_.max_rows)
        fail(error_id::table_size, operation, "rows of " + soma::quoted(name_),
             "more than " + std::to_string(options_.max_rows), "at most that (max_rows)");
      use(record);
    }
  }
  std::string where(const Record& record) const;
  std::string cell_of(const Record& record, const FileColumn& file_column) const;
  void check(const Record& record) const;

  void read_header(const Record& record);

  bool is_missing(std::string_view cell) const;
  // The first pass.
  void look(const Record& record);
  void start_columns();
  // The second pass. (If the file was written to in between, reading has already ended with an
  // error.)
  void take(const Record& record);
  std::int32_t code_of(const Record& record, FileColumn& file_column, std::string_view cell) const;
  // Categories have numbers in the order of appearance, and now get numbers in sorted order.
  void finish_columns();

  const TableOptions& options_;
  std::string name_;
  std::vector<FileColumn> file_columns_{};
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
Table read_table(std::string_view path, const TableOptions& options = {});
// The same for a text in memory.
Table read_table_text(std::string_view content, const TableOptions& options = {});

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/tables/impl/read_table.ipp>
#endif
