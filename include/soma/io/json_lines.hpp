#pragma once
// JsonLines: a log with a Record in each line, in the form that many tools read.

#include <soma/io/append_file.hpp>
#include <soma/io/record_json.hpp>

#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

// One writer at a time, as AppendFile.
class JsonLines {
 public:
  // Error file.write.
  explicit JsonLines(std::string_view path, ExistingFile existing = ExistingFile::append);

  // When this returns, the system has the line, so a killed process loses none. Errors file.write
  // (the file then ends with the line before), record.text.
  void write(const Record& record);

 private:
  AppendFile file_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/json_lines.ipp>
#endif
