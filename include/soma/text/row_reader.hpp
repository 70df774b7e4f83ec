#pragma once
// RowReader: the labelled rows of a file in order, with the memory of one row.

#include <soma/text/columns.hpp>
#include <soma/text/json_row.hpp>
#include <soma/text/record_reader.hpp>
#include <soma/text/row_options.hpp>
#include <soma/text/rows/header.hpp>
#include <soma/text/rows/label_cells.hpp>
#include <soma/text/rows/label_column.hpp>
#include <soma/text/rows/label_names.hpp>
#include <soma/text/rows/separators.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

class RowReader {
 public:
  // Files may be gzip or UTF-16, begin with a byte order mark, and end lines with LF or CR LF;
  // blank lines are ignored. The text of a pipe or of standard input ("-") is kept in memory.
  // `operation` names the caller in messages, and must outlive the object. Errors file.read,
  // text.file_format, text.column, text.header, and those of next().
  explicit RowReader(std::string_view path, const RowOptions& options = {},
                     std::string_view operation = "RowReader");
  // The same for a text in memory, which must outlive the object.
  static RowReader of_memory(std::string_view content, const RowOptions& options,
                             std::string_view operation = "RowReader");

  // Reads the next row; returns false at the end. Labels are trimmed; texts are unchanged. A bad
  // row is an error with file and line, or, with skip_bad_rows, is counted:
  //   text.row_columns   more or fewer columns than the first row
  //   text.row_quote     a quotation mark where csv has none (one never closed is always an error)
  //   text.row_label     no label, or several, or one with a tab or a line's end in it; a list that
  //                      is not whole; a cell of label_columns that is neither 0 nor 1; or a label
  //                      that is no number where numbers are asked for
  //   text.row_json      no JSON object with a text and a label
  //   text.row_empty     nothing but white space for a text
  //   text.row_encoding  a zero byte, or bytes that are not UTF-8
  //   text.row_too_long  more than max_row_bytes
  //   text.header        the header once more; with Header::detect also a row labelled as it is
  // Further errors: text.file_empty (not one good row), file.read, text.file_gzip,
  // text.file_changed, runtime.stopped (RowOptions::stop).
  bool next(Row& row);

  const std::vector<SkippedRows>& skipped() const { return skipped_; }
  Format format() const { return format_; }
  // True if the first row names the columns, by the options or by detection.
  bool has_header() const;
  // True if the labels were found in the first column by counting.
  bool swaps_columns() const { return swaps_columns_; }
  // The names of RowOptions::label_columns, as the header has them.
  std::vector<std::string> classes() const;
  // The columns of this file; none for fastText, or if the header has no name, a number or the same
  // name twice for one of them.
  KnownColumns columns() const;
  const std::string& file() const;
  const FileState& state() const;

 private:
  // `kept`: the text, if it belongs to the reader.
  RowReader(ByteSource bytes, const RowOptions& options, std::string_view memory = {},
            std::unique_ptr<std::string> kept = {});
  static RowReader of_bytes(ByteSource bytes, const RowOptions& options);

  // ---- the file's format

  Format find_format();

  char separator() const { return options_.separator != 0 ? options_.separator : ','; }
  // Error text.file_format: the columns of the file evidently have another separator.
  void check_separator(Format format);
  // Lines of fastText have no columns.
  void refuse_columns() const;
  // The options with the known columns where they leave the choice open. `has(name)`: true if the
  // file has a column of that name or number.
  template <class Has>
  void take_known(const Has& has);
  JsonRowReader json_reader();

  // ---- the header

  void read_header();
  // Reads the rows after the first with a reader of its own. `labels`: nullptr where the columns
  // are known.
  void read_ahead(HeaderFinder& finder, LabelColumnFinder* labels, const Record& first);
  // The options, with the column of labels if its place was found by counting. Error text.column.
  RowOptions with_label_column(const LabelColumnFinder& labels);
  static std::string shown(const std::vector<std::string>& fields);
  // A repeated header is no row, and no class.
  std::optional<RowProblem> check_header(const Record& record) const;
  // The next record without a problem in its form.
  bool read_good(Record& record);

  // ---- rows

  bool next_record(Record& record);
  bool read_record(Record& record);
  bool read_record(RecordReader& records, Record& record) const;

  // Fills in the texts and labels of a record, or returns the reason why there are none.
  std::optional<RowProblem> take(Record& record, Row& row);
  std::optional<RowProblem> take_json(std::string_view line, Row& row);
  // Labels are words with a prefix, anywhere in the line; the text is the other words, from the
  // first to the last.
  std::optional<RowProblem> take_fasttext(std::string_view line, Row& row) const;
  static void join(std::string& text, std::string& part);
  std::optional<RowProblem> check(Row& row) const;
  static std::optional<RowProblem> check_label(const std::string& label);

  void refuse(const RowProblem& problem, std::uint64_t line);
  std::string_view operation() const;

  RowOptions options_;
  std::unique_ptr<std::string> kept_;
  std::string_view memory_;  // the text, if it is read from memory
  RecordReader records_;
  Format format_;
  JsonRowReader json_;
  Columns columns_;
  std::uint64_t columns_line_ = 0;
  std::optional<std::vector<std::string>> header_{};
  std::optional<Record> waiting_{};  // a row that was read already
  std::vector<SkippedRows> skipped_;
  std::uint64_t rows_ = 0;  // good ones so far
  bool swaps_columns_ = false;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/row_reader.ipp>
#endif
