#pragma once
// The functions of record_reader.hpp.

#include <soma/text/record_reader.hpp>

#include <soma/text/byte_source.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE std::optional<RowProblem> encoding_problem(std::string_view text,
                                                       std::string_view name) {
  const std::size_t at = find_invalid_utf8(text);
  if (at == std::string_view::npos) return std::nullopt;
  return RowProblem{error_id::text_row_encoding,
                    std::string(text[at] == '\0' ? "a zero byte" : "not UTF-8") + " at byte " +
                        std::to_string(at + 1) + " of its " + std::string(name),
                    "UTF-8 without zero bytes"};
}

SOMA_INLINE RecordReader::RecordReader(ByteSource bytes, std::size_t limit, char separator)
    : bytes_(std::move(bytes)), limit_(limit), separator_(separator) {
  if (bytes_.ahead().starts_with("\xEF\xBB\xBF")) bytes_.skip(3);  // a byte order mark
}

SOMA_INLINE bool RecordReader::begin_record(Record& record) {
  if (bytes_.peek() < 0) return false;
  record.fields.clear();
  record.problem.reset();
  record.line = line_;
  size_ = 0;
  quoted_ = false;
  return true;
}

SOMA_INLINE void RecordReader::read_line(Record& record) {
  std::string& field = record.fields.emplace_back();
  while (append_line(record, field)) {
  }
  if (field.ends_with('\r')) field.pop_back();
}

SOMA_INLINE bool RecordReader::next_any_line(Record& record) {
  if (!begin_record(record)) return false;
  read_line(record);
  ++line_;
  return true;
}

SOMA_INLINE bool RecordReader::next_line(Record& record) {
  return next_of(record, [&] { read_line(record); });
}

SOMA_INLINE bool RecordReader::next_tsv(Record& record) {
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

SOMA_INLINE bool RecordReader::next_csv(Record& record) {
  return next_of(record, [&] {
    while (next_field(record)) {
    }
  });
}

SOMA_INLINE bool RecordReader::append_line(Record& record, std::string& field) {
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

SOMA_INLINE void RecordReader::append(Record& record, std::string& field, int byte) {
  if (count_byte(record)) field.push_back(static_cast<char>(byte));
}

SOMA_INLINE bool RecordReader::count_byte(Record& record) {
  if (size_++ < limit_) return true;
  note(record, error_id::text_row_too_long, "longer than " + std::to_string(limit_) + " bytes",
       "at most that (max_row_bytes)");
  return false;
}

SOMA_INLINE void RecordReader::note(Record& record, ErrorId reason, std::string given,
                                    std::string wanted) {
  if (!record.problem) record.problem = {reason, std::move(given), std::move(wanted)};
}

SOMA_INLINE bool RecordReader::next_field(Record& record) {
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

SOMA_INLINE bool RecordReader::more_fields(Record& record) {
  count_byte(record);
  if (record.problem) record.fields.clear();  // nothing of a record that is too long is needed
  return true;
}

SOMA_INLINE void RecordReader::quoted_field(Record& record, std::string& field) {
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

SOMA_INLINE bool RecordReader::skip_line() {
  for (int byte = 0; byte >= 0 && byte != '\n';) byte = bytes_.next();
  return false;
}

}  // namespace SOMA_NAMESPACE::text
