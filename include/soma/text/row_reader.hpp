#pragma once
// RowReader: labelled rows of a file one after the other, in the memory of one row.

#include <soma/text/columns.hpp>
#include <soma/text/json_row.hpp>
#include <soma/text/record_reader.hpp>
#include <soma/text/row_options.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soma::text {

class RowReader {
 public:
  // Files may be gzip, begin with a byte order mark, and end lines with LF or CR LF; blank lines
  // are nothing. `operation` names the caller in messages, and outlives the object. Errors
  // file.read, text.file_format, text.column, and those of next().
  explicit RowReader(std::string_view path, const RowOptions& options = {},
                     std::string_view operation = "RowReader")
      : RowReader(ByteSource::open(operation, path, options.stop), options) {}
  // The same for what is in memory already, and outlives the object.
  static RowReader of_memory(std::string_view content, const RowOptions& options,
                             std::string_view operation = "RowReader") {
    return RowReader(ByteSource::of_memory(operation, content), options);
  }

  // The next row; false at the end. Labels have no spaces around them; texts are as they are in the
  // file. A bad row is an error that names file and line, or is counted:
  //   text.row_columns   more or fewer columns than the first row
  //   text.row_quote     a quotation mark where csv has none (one never closed is always an error)
  //   text.row_label     no label, or several, or one with a tab or a line's end in it
  //   text.row_json      no JSON object with a text and a label
  //   text.row_empty     nothing but white space for a text
  //   text.row_encoding  a zero byte, or bytes that are not UTF-8
  //   text.row_too_long  more than max_row_bytes
  // Further errors: text.file_empty (not one good row), file.read, text.file_gzip,
  // text.file_changed, runtime.stopped (RowOptions::stop).
  bool next(Row& row) {
    Record record;
    while (next_record(record)) {
      std::optional<RowProblem> problem = std::move(record.problem);
      if (!problem) problem = take(record, row);
      if (!problem) problem = check(row);
      row.line = record.line;
      if (!problem) {
        ++rows_;
        return true;
      }
      refuse(*problem, record.line);
    }
    if (rows_ == 0)
      fail(error_id::text_file_empty, operation(), "file",
           soma::quoted(file()) + (skipped_.empty() ? ", without rows" : ", all rows of it bad"),
           "at least one row with text and label");
    return false;
  }

  const std::vector<SkippedRows>& skipped() const { return skipped_; }
  Format format() const { return format_; }
  const std::string& file() const { return records_.bytes().name(); }
  const FileState& state() const { return records_.bytes().state(); }

 private:
  RowReader(ByteSource bytes, const RowOptions& options)
      : options_(options),
        records_(std::move(bytes), options.max_row_bytes),
        format_(find_format()),
        json_(options.text_column.empty() ? "text" : options.text_column,
              options.label_column.empty() ? "label" : options.label_column) {
    if (format_ == Format::tsv || format_ == Format::csv) read_header();
  }

  // ---- what kind of file it is

  Format find_format() {
    if (options_.format != Format::detect) return options_.format;
    struct Ending {
      std::string_view name;
      Format format;
    };
    constexpr std::array<Ending, 4> endings = {{{".tsv", Format::tsv},
                                                {".csv", Format::csv},
                                                {".jsonl", Format::json_lines},
                                                {".ndjson", Format::json_lines}}};
    std::string_view name = file();
    if (name.ends_with(".gz")) name.remove_suffix(3);
    std::string_view line = records_.bytes().ahead();
    // A byte order mark may be gone from a full buffer.
    bool whole = line.size() + 3 < ByteSource::buffer_bytes;
    line.remove_prefix((std::min)(line.find_first_not_of("\r\n"), line.size()));
    whole = whole || line.find('\n') != line.npos;
    line = line.substr(0, line.find('\n'));
    const auto looks_like = [&](Format format) {
      switch (format) {
        case Format::fasttext:
          return line.starts_with("__label__");
        case Format::json_lines:
          return line.starts_with('{');
        case Format::tsv:
          return line.find('\t') != std::string_view::npos;
        default:
          return line.find_first_of(",\"") != std::string_view::npos;
      }
    };
    for (const auto& [ending, format] : endings) {
      if (!name.ends_with(ending)) continue;
      // Of a longer line, the tab or comma may be where it is not seen yet.
      const bool decided = whole || format == Format::json_lines;
      if (!line.empty() && decided && !looks_like(format))
        fail(error_id::text_file_format, operation(), "file",
             soma::quoted(file()) + ", whose first line is not " + std::string(to_string(format)),
             "what its name says, or a format that is given");
      return format;
    }
    for (const Format format : {Format::fasttext, Format::json_lines, Format::tsv})
      if (looks_like(format)) return format;
    // Nothing in it: next() says so.
    if (line.empty()) return Format::tsv;
    fail(error_id::text_file_format, operation(), "file", soma::quoted(file()),
         "a name that ends in .tsv, .csv or .jsonl, a first line of fastText, JSON or with a tab, "
         "or a format that is given");
  }

  // Reads ahead as far as the rule of headers looks.
  void read_header() {
    Record first, second;
    if (!read_good(first)) return;
    const bool names = options_.header == Header::detect && read_good(second);
    const std::size_t label = [&] {
      if (const auto number = whole_number(options_.label_column))
        return static_cast<std::size_t>(*number) - 1;
      return whole_number(options_.text_column) == 2 ? std::size_t{0} : std::size_t{1};
    }();
    const bool header = is_header(options_, first.fields, second.fields, label);
    columns_ = find_columns(operation(), file(), options_, first.fields, header);
    columns_line_ = first.line;
    if (names) waiting_.push_back(std::move(second));
    if (!header) waiting_.push_back(std::move(first));
  }
  // The next record without a problem of its own.
  bool read_good(Record& record) {
    while (read_record(record)) {
      if (!record.problem) return true;
      refuse(*record.problem, record.line);
    }
    return false;
  }

  // ---- rows

  bool next_record(Record& record) {
    if (waiting_.empty()) return read_record(record);
    record = std::move(waiting_.back());
    waiting_.pop_back();
    return true;
  }
  bool read_record(Record& record) {
    if (format_ == Format::csv) return records_.next_csv(record);
    return format_ == Format::tsv ? records_.next_tsv(record) : records_.next_line(record);
  }

  // Text and label of a record, or why there are none.
  std::optional<RowProblem> take(Record& record, Row& row) {
    if (format_ == Format::json_lines) {
      std::optional<RowProblem> problem = json_.read(record.fields.front(), row.text, row.label);
      row.label = trimmed(row.label);
      return problem;
    }
    if (format_ == Format::fasttext) return take_fasttext(record.fields.front(), row);
    if (record.fields.size() != columns_.count)
      return RowProblem{
          error_id::text_row_columns, std::to_string(record.fields.size()) + " columns wide",
          std::to_string(columns_.count) + ", as line " + std::to_string(columns_line_)};
    row.text = std::move(record.fields[columns_.text]);
    row.label = trimmed(record.fields[columns_.label]);
    return std::nullopt;
  }
  static std::optional<RowProblem> take_fasttext(std::string_view line, Row& row) {
    constexpr std::string_view prefix = "__label__";
    const auto problem = [](std::string given) {
      return RowProblem{error_id::text_row_label, std::move(given),
                        "one __label__<name> in front of the text"};
    };
    line = trimmed(line);
    if (!line.starts_with(prefix)) return problem("a line without label");
    line.remove_prefix(prefix.size());
    const std::size_t end = (std::min)(line.find_first_of(" \t"), line.size());
    row.label = line.substr(0, end);
    row.text = trimmed(line.substr(end));
    if (row.text.starts_with(prefix)) return problem("a line with several labels");
    return std::nullopt;
  }

  static std::optional<RowProblem> check(const Row& row) {
    for (const std::string* text : {&row.text, &row.label})
      if (const std::size_t at = find_invalid_utf8(*text); at != std::string::npos)
        return RowProblem{error_id::text_row_encoding,
                          std::string((*text)[at] == '\0' ? "a zero byte" : "not UTF-8") +
                              " at byte " + std::to_string(at + 1) + " of its " +
                              (text == &row.text ? "text" : "label"),
                          "UTF-8 without zero bytes"};
    if (row.label.empty()) return RowProblem{error_id::text_row_label, "without label", "a label"};
    // What is predicted is written line by line, with a tab behind the label.
    if (row.label.find_first_of("\t\r\n") != std::string::npos)
      return RowProblem{error_id::text_row_label, "labelled " + soma::quoted(row.label),
                        "a label without tabs and line ends"};
    if (row.text.find_first_not_of(" \t\r\n\f\v") == std::string::npos)
      return RowProblem{error_id::text_row_empty, "without text", "a text"};
    return std::nullopt;
  }

  void refuse(const RowProblem& problem, std::uint64_t line) {
    if (!options_.skip_bad_rows)
      fail(problem.reason, operation(),
           "line " + std::to_string(line) + " of " + soma::quoted(file()), problem.given,
           problem.wanted);
    count_skipped(skipped_, {problem.reason, 1, file(), line});
  }
  std::string_view operation() const { return records_.bytes().operation(); }

  RowOptions options_;
  RecordReader records_;
  Format format_;
  JsonRowReader json_;
  Columns columns_;
  std::uint64_t columns_line_ = 0;
  std::vector<Record> waiting_;  // the last comes first
  std::vector<SkippedRows> skipped_;
  std::uint64_t rows_ = 0;  // good ones so far
};

}  // namespace soma::text
