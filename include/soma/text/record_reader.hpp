#pragma once
// RecordReader: cuts bytes into records: a line, or a CSV row whose quoted fields may hold line
// ends. Memory: one record.

#include <soma/text/byte_source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

// The reason to refuse a row: an id text.row_*, and the parts of the message.
struct RowProblem {
  ErrorId reason;
  std::string given, wanted;
};

// The problem of a text that is not UTF-8, or has a zero byte. `name` is for the message: "text".
std::optional<RowProblem> encoding_problem(std::string_view text, std::string_view name);

// A line without its end, or the fields of a row.
struct Record {
  std::vector<std::string> fields;
  std::uint64_t line = 0;             // where it begins, from 1
  std::optional<RowProblem> problem;  // then the fields say nothing
};

class RecordReader {
 public:
  // A record of more than `limit` bytes in the file has a problem. `separator`: for next_csv().
  RecordReader(ByteSource bytes, std::size_t limit, char separator = ',');

  // The next line, as one field; the end of the last line may be missing.
  bool next_any_line(Record& record);
  // The next line that is not blank, as one field; lines end with LF or CR LF. Returns false at the
  // end of the file. Errors as of ByteSource::next.
  bool next_line(Record& record);
  // The next line that is not blank, cut at tabs. Quotation marks are ordinary characters.
  bool next_tsv(Record& record);
  // The next row of RFC 4180, without blank lines: fields between separators. A field that begins
  // with a quotation mark ends at the next mark that is not doubled. The reader is strict: a
  // quotation mark inside an unquoted field, or any character except a separator after a closing
  // mark, is text.row_quote, and the next line counts as the next row. A mark that is never closed
  // swallows the rest of the file; that error cannot be skipped and is thrown.
  bool next_csv(Record& record);

  ByteSource& bytes() { return bytes_; }
  const ByteSource& bytes() const { return bytes_; }

 private:
  // A blank line is a record with one empty, unquoted field.
  template <class Read>
  bool next_of(Record& record, const Read& read) {
    do {
      if (!begin_record(record)) return false;
      read();
      ++line_;
    } while (!record.problem && record.fields.size() == 1 && record.fields.front().empty() &&
             !quoted_);
    return true;
  }

  // Returns false at the end.
  bool begin_record(Record& record);
  void read_line(Record& record);
  // Appends the rest of the line in memory, and notes its end; returns true if the line may
  // continue.
  bool append_line(Record& record, std::string& field);
  void append(Record& record, std::string& field, int byte);
  // Returns true if there is room for one more byte.
  bool count_byte(Record& record);
  static void note(Record& record, ErrorId reason, std::string given, std::string wanted);

  // Reads a field; returns true if another field follows.
  bool next_field(Record& record);
  bool more_fields(Record& record);
  // Reads after the opening mark, up to and including the closing mark.
  void quoted_field(Record& record, std::string& field);
  bool skip_line();

  ByteSource bytes_;
  std::size_t limit_;
  char separator_;
  std::size_t size_ = 0;  // bytes of the record so far
  bool quoted_ = false;   // true: the record has a quoted field
  std::uint64_t line_ = 1;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/record_reader.ipp>
#endif
