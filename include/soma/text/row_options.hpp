#pragma once
// What a reader of labelled rows can be told, and what it tells.

#include <soma/runtime/stop_flag.hpp>

#include <cstddef>
#include <cstdint>
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
// first line has to look like it. Other names (.txt, .ft) go by the first line: it begins with
// __label__, or with {, or holds a tab.
//
// Header::detect takes the first row for a header if a column option is a name; if one field is
// called text, sentence, review, content or comment and another label, class, category or sentiment
// (in upper or lower case); or if its label is no whole number but that of the second row is.
//
// Columns are given by the header's name or by number, the first being 1. Default: those names;
// else, of two columns, the text is the first and the label the second. Keys of JSON lines are
// given by name, "text" and "label" by default.
struct RowOptions {
  Format format = Format::detect;
  Header header = Header::detect;
  std::string text_column{}, label_column{};
  std::size_t max_row_bytes = std::size_t{1} << 20;  // as the row lies in the file, unpacked
  bool skip_bad_rows = false;                        // count them instead of an error
  const StopFlag* stop = nullptr;  // ends the reading with runtime.stopped; nullptr: nothing does
};

struct Row {
  std::string text, label;
  std::uint64_t line = 0;  // where the row begins, from 1
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
