#pragma once
// TextLines: texts without labels, a line each, by the rules of RowReader: also gzip, UTF-16 and a
// byte order mark.

#include <soma/text/record_reader.hpp>
#include <soma/text/row_options.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::text {

class TextLines {
 public:
  // A file, or "-": standard input. `operation` names the caller in messages, and must outlive the
  // object. RowOptions: max_row_bytes and stop. Errors as of ByteSource::open.
  TextLines(std::string_view path, std::string_view operation, const RowOptions& options = {});

  // The next line, without its end; a blank line is a text too. Returns false at the end. Errors
  // text.row_encoding (not UTF-8, or a zero byte), text.row_too_long, and those of
  // ByteSource::next.
  bool next(std::string& text);
  // True if the rest of the next line has not arrived yet.
  bool must_wait() const;
  // The place of the last line, for messages: line 3 of "a.txt".
  std::string place() const;

 private:
  RecordReader records_;
  Record record_{};
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/text_lines.ipp>
#endif
