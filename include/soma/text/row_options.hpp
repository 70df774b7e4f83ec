#pragma once
// Options and results of readers of labelled rows.

#include <soma/base/error.hpp>
#include <soma/data/labels.hpp>
#include <soma/runtime/stop_flag.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

// tsv         text <tab> label; quotation marks mean nothing
// csv         RFC 4180: fields with commas, quotes or line ends in quotes
// fasttext    __label__<name> text
// json_lines  {"text": "...", "label": ...} in each line
enum class Format : std::uint8_t { detect, tsv, csv, fasttext, json_lines };

constexpr std::string_view to_string(Format format) {
  constexpr std::string_view names[] = {"detect", "tsv", "csv", "fastText", "JSON lines"};
  return names[static_cast<std::size_t>(format)];
}

// The meaning of the first row in tsv and csv: column names or data.
enum class Header : std::uint8_t { detect, present, absent };

// The columns of rows that were read before (RowReader::columns()), so that rows of the same form
// are read alike. Without texts nothing is known.
struct KnownColumns {
  // The names in the header, or the keys of JSON lines; in a table without a header the numbers,
  // from 1.
  std::vector<std::string> texts{};  // joined in this order
  std::string pair{}, label{};       // pair: empty without pairs
  bool named = false;
  std::size_t count = 0;  // columns of the table; 0: of JSON lines

  friend bool operator==(const KnownColumns&, const KnownColumns&) = default;
};

// Format::detect uses the file's name: .tsv, .csv, .jsonl or .ndjson, before an optional .gz. The
// first line must match the format, and the first lines must not evidently have another separator.
// For other names (.txt, .ft) the first line decides: it begins with __label__ or with {, or
// contains a tab. A pipe or standard input is csv if the first lines evidently have commas between
// columns.
//
// Header::detect takes the first row for a header
//   if a column option is a name;
//   if one cell is a usual name of texts and another one of labels (rows/column_names.hpp);
//   if its label occurs in no other row, each other label occurs twice or is a number (and the
//   first row's is none), and one of its cells is such a name.
// If the last rule holds except for the name, the result is error text.header: a header never
// silently becomes a class, and a row never becomes a header by guessing. If the first row alone
// does not decide, the file is read ahead once, until a row has the first row's label.
//
// Columns are given by the header's name or by number, starting from 1. Default: known_columns, by
// name if the first row, or object, has all that no option gives, and by number in a table of as
// many columns without a header; then the usual names; without them, in a table of two columns, the
// text is the first and the label the second. If the first rows show that it is the other way round
// (few values in the first column, long texts in the second), the columns are swapped, with a note;
// error text.column: the second column has another value in most rows, and the first column does
// not look better. Keys of JSON lines are given by name, "text" and "label" by default.
struct RowOptions {
  Format format = Format::detect;
  Header header = Header::detect;
  std::string text_column{}, label_column{};
  std::size_t max_row_bytes = std::size_t{1} << 20;  // as the row lies in the file, unpacked
  bool skip_bad_rows = false;                        // count them instead of an error
  // The kind of a row's label: a class, classes (Row::labels), or a number (Row::number).
  data::LabelKind labels = data::LabelKind::one;
  // Several text columns instead of text_column: their texts are joined by a space, without empty
  // texts.
  std::vector<std::string> text_columns{};
  // The column of the second text (Row::pair); empty: no pairs, or those of known_columns.
  std::string pair_column{};
  KnownColumns known_columns{};
  // The separator of columns, in a table that otherwise is csv: ';' or '\t' ... 0: the format's.
  char separator = 0;
  char label_separator = ',';  // LabelKind::several: between the classes of a cell
  // LabelKind::several: columns that each have 1 for the rows of a class and 0 for others (also
  // 1.0, true and True; empty is 0), in a table with a header, whose names are the classes. They
  // replace label_column.
  std::vector<std::string> label_columns{};
  // Labels of one label_key() are one class; otherwise they are the error text.label_alike.
  bool merge_labels = false;
  // Labels that are known in advance: a first row with one of them is no header. They must outlive
  // the reader.
  std::span<const std::string> known_labels{};
  bool reads_ahead = false;        // gzip is unpacked by a thread of the reader's own
  const StopFlag* stop = nullptr;  // ends the reading with runtime.stopped; nullptr: nothing does
  // Takes sentences for people about what readers have decided by themselves; nullptr: nobody does.
  std::vector<std::string>* notes = nullptr;
};

struct Row {
  std::string text, label;
  std::vector<std::string> labels{};  // LabelKind::several: each once, in the order of the file
  float number = 0;                   // LabelKind::number
  std::uint64_t line = 0;             // where the row begins, from 1
  std::string pair{};                 // the second text, of rows with pair_column
};

// Rows that skip_bad_rows left out for one reason (an id text.row_*), and the place of the first.
struct SkippedRows {
  ErrorId reason;
  std::uint64_t rows = 0;
  std::string file;
  std::uint64_t line = 0;
};

// Adds to the entry of that reason, or adds an entry.
void count_skipped(std::vector<SkippedRows>& skipped, const SkippedRows& more);

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/row_options.ipp>
#endif
