#pragma once
// What a reader of labelled rows can be told, and what it tells.

#include <soma/base/error.hpp>
#include <soma/data/labels.hpp>
#include <soma/runtime/stop_flag.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace soma::text {

// tsv         text <tab> label; quotation marks mean nothing
// csv         RFC 4180: fields with commas, quotes or line ends in quotes
// fasttext    __label__<name> text
// json_lines  {"text": "...", "label": ...} in each line
enum class Format : std::uint8_t { detect, tsv, csv, fasttext, json_lines };

constexpr std::string_view to_string(Format format) {
  constexpr std::string_view names[] = {"detect", "tsv", "csv", "fastText", "JSON lines"};
  return names[static_cast<std::size_t>(format)];
}

// Whether the first row of tsv and csv names the columns.
enum class Header : std::uint8_t { detect, present, absent };

// Format::detect goes by the name: .tsv, .csv, .jsonl or .ndjson, a .gz behind it ignored; the
// first line has to look like it, and the first lines may not evidently have another separator.
// Other names (.txt, .ft) go by the first line: it begins with __label__, or with {, or holds a
// tab.
//
// Header::detect takes the first row for a header
//   if a column option is a name;
//   if one cell is a usual name of texts and another one of labels (rows/column_names.hpp);
//   if its label occurs in no other row, each other label occurs twice or is a number (and the
//   first row's is none), and one of its cells is such a name.
// Where the last holds but for the name, it is error text.header: a header never becomes a class in
// silence, and a row is never taken for a header by guessing. Where the first row alone does not
// decide, the file is read ahead, once, until a row has the first row's label.
//
// Columns are given by the header's name or by number, the first being 1. Default: the usual names;
// else, of two columns, the text is the first and the label the second. Keys of JSON lines are
// given by name, "text" and "label" by default.
struct RowOptions {
  Format format = Format::detect;
  Header header = Header::detect;
  std::string text_column{}, label_column{};
  std::size_t max_row_bytes = std::size_t{1} << 20;  // as the row lies in the file, unpacked
  bool skip_bad_rows = false;                        // count them instead of an error
  // What the label of a row is: a class, classes (Row::labels), or a number (Row::number).
  data::LabelKind labels = data::LabelKind::one;
  // Instead of text_column: several, whose texts are joined by a space (empty ones left out).
  std::vector<std::string> text_columns{};
  std::string pair_column{};  // of the second text of a pair (Row::pair); empty: no pairs
  // Of columns, in a table that is otherwise csv: ';' or '\t' ... 0: what the format says.
  char separator = 0;
  char label_separator = ',';  // LabelKind::several: between the classes of a cell
  // Labels that are known before: a first row that has one of them is no header. They outlive the
  // reader.
  std::span<const std::string> known_labels{};
  bool reads_ahead = false;        // gzip is unpacked by a thread of the reader's own
  const StopFlag* stop = nullptr;  // ends the reading with runtime.stopped; nullptr: nothing does
};

struct Row {
  std::string text, label;
  std::vector<std::string> labels{};  // LabelKind::several: each once, in the order of the file
  float number = 0;                   // LabelKind::number
  std::uint64_t line = 0;             // where the row begins, from 1
  std::string pair{};                 // the second text, of rows with pair_column
};

// Rows that skip_bad_rows left out, for one reason (an id text.row_*), and where the first was.
struct SkippedRows {
  ErrorId reason;
  std::uint64_t rows = 0;
  std::string file;
  std::uint64_t line = 0;
};

// Adds to the entry of that reason, or makes one.
inline void count_skipped(std::vector<SkippedRows>& skipped, const SkippedRows& more) {
  for (SkippedRows& entry : skipped)
    if (entry.reason == more.reason) {
      entry.rows += more.rows;
      return;
    }
  skipped.push_back(more);
}

}  // namespace soma::text
