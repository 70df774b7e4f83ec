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

namespace soma::text {

// The reason to refuse a row: an id text.row_*, and the parts of the message.
struct RowProblem {
  ErrorId reason;
  std::string given, wanted;
};

// A line without its end, or the fields of a row.
struct Record {
  std::vector<std::string> fields;
  std::uint64_t line = 0;             // where it begins, from 1
  std::optional<RowProblem> problem;  // then the fields say nothing
};

class RecordReader {
 public:
  // A record of more than `limit` bytes in the file has a problem. `separator`: for next_csv().
  RecordReader(ByteSource bytes, std::size_t limit, char separator = ',')
      : bytes_(std::move(bytes)), limit_(limit), separator_(separator) {
    if (bytes_.ahead().starts_with("\xEF\xBB\xBF")) bytes_.skip(3);  // a byte order mark
  }

  // The next line that is not blank, as one field; lines end with LF or CR LF. Returns false at the
  // end of the file. Errors as of ByteSource::next.
  bool next_line(Record& record) {
    return next_of(record, [&] {
      std::string& field = record.fields.emplace_back();
      while (append_line(record, field)) {
      }
      if (field.ends_with('\r')) field.pop_back();
    });
  }
  // The next line that is not blank, cut at tabs. Quotation marks are ordinary characters.
  bool next_tsv(Record& record) {
    if (!next_line(record)) return false;
    if (record.problem) return true;
    const std::string line = std::move(record.fields.front());
    record.fields.clear();
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = (std::min)(line.find('\t', begin), line.size());
      record.fields.emplace_back(line, begin, end - begin);
      begin = end + 1;
    }
    return true;
  }
  // The next row of RFC 4180, without blank lines: fields between separators. A field that begins
  // with a quotation mark ends at the next mark that is not doubled. The reader is strict: a
  // quotation mark inside an unquoted field, or any character except a separator after a closing
  // mark, is text.row_quote, and the next line counts as the next row. A mark that is never closed
  // swallows the rest of the file; that error cannot be skipped and is thrown.
  bool next_csv(Record& record) {
    return next_of(record, [&] {
      while (next_field(record)) {
      }
    });
  }

  ByteSource& bytes() { return bytes_; }
  const ByteSource& bytes() const { return bytes_; }

 private:
  // A blank line is a record with one empty, unquoted field.
  template <class Read>
  bool next_of(Record& record, const Read& read) {
    do {
      if (bytes_.peek() < 0) return false;
      record.fields.clear();
      record.problem.reset();
      record.line = line_;
      size_ = 0;
      quoted_ = false;
      read();
      ++line_;
    } while (!record.problem && record.fields.size() == 1 && record.fields.front().empty() &&
             !quoted_);
    return true;
  }

  // Appends the rest of the line in memory, and notes its end; returns true if the line may
  // continue.
  bool append_line(Record& record, std::string& field) {
    const std::string_view ahead = bytes_.ahead();
    const std::size_t end = ahead.find('\n');
    const std::string_view part = ahead.substr(0, end);
    const std::size_t room = limit_ - (std::min)(size_, limit_);
    field.append(part.substr(0, room));
    size_ += (std::min)(part.size(), room);
    if (part.size() > room) count_byte(record);
    bytes_.skip(part.size() + (end == ahead.npos ? 0 : 1));
    return end == ahead.npos && !ahead.empty();
  }
  void append(Record& record, std::string& field, int byte) {
    if (count_byte(record)) field.push_back(static_cast<char>(byte));
  }
  // Returns true if there is room for one more byte.
  bool count_byte(Record& record) {
    if (size_++ < limit_) return true;
    note(record, error_id::text_row_too_long, "longer than " + std::to_string(limit_) + " bytes",
         "at most that (max_row_bytes)");
    return false;
  }
  static void note(Record& record, ErrorId reason, std::string given, std::string wanted) {
    if (!record.problem) record.problem = {reason, std::move(given), std::move(wanted)};
  }

  // Reads a field; returns true if another field follows.
  bool next_field(Record& record) {
    std::string& field = record.fields.emplace_back();
    int byte = bytes_.next();
    if (byte == '"') {
      quoted_field(record, field);
      byte = bytes_.next();
      if (byte == '\r' && bytes_.peek() == '\n') byte = bytes_.next();
      if (byte == separator_) return more_fields(record);
      if (byte < 0 || byte == '\n') return false;
      note(record, error_id::text_row_quote, "a field with text behind its closing quotation mark",
           std::string(separator_ == ',' ? "a comma" : "a separator") + " or a line's end there");
      return skip_line();
    }
    for (; byte != separator_; byte = bytes_.next()) {
      if (byte < 0 || byte == '\n') {
        if (field.ends_with('\r')) field.pop_back();
        return false;
      }
      if (byte == '"') {
        note(record, error_id::text_row_quote, "a field without quotes that holds a quotation mark",
             "fields with quotation marks inside quotes, the marks doubled");
        return skip_line();
      }
      append(record, field, byte);
    }
    return more_fields(record);
  }
  bool more_fields(Record& record) {
    count_byte(record);
    if (record.problem) record.fields.clear();  // nothing of a record that is too long is needed
    return true;
  }
  // Reads after the opening mark, up to and including the closing mark.
  void quoted_field(Record& record, std::string& field) {
    quoted_ = true;
    for (int byte = bytes_.next(); true; byte = bytes_.next()) {
      if (byte < 0)
        fail(error_id::text_row_quote, bytes_.operation(),
             "line " + std::to_string(record.line) + " of " + soma::quoted(bytes_.name()),
             "a row whose quotation mark is not closed before the file's end",
             "a closing quotation mark");
      if (byte == '\n') ++line_;
      if (byte == '"') {
        if (bytes_.peek() != '"') return;
        bytes_.next();
      }
      append(record, field, byte);
    }
  }
  bool skip_line() {
    for (int byte = 0; byte >= 0 && byte != '\n';) byte = bytes_.next();
    return false;
  }

  ByteSource bytes_;
  std::size_t limit_;
  char separator_;
  std::size_t size_ = 0;  // bytes of the record so far
  bool quoted_ = false;   // true: the record has a quoted field
  std::uint64_t line_ = 1;
};

}  // namespace soma::text
