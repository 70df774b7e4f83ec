#pragma once
// The functions of json_lines.hpp.

#include <soma/io/json_lines.hpp>

#include <soma/io/append_file.hpp>
#include <soma/io/record_json.hpp>

#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE JsonLines::JsonLines(std::string_view path, ExistingFile existing)
    : file_("JsonLines", path, existing) {
  // A last line that was cut by a loss of power must not spoil the next one.
  if (file_.size() != 0 && file_.last() != '\n') file_.write("\n");
}

SOMA_INLINE void JsonLines::write(const Record& record) {
  file_.write(to_json(record).append("\n"));
}

}  // namespace SOMA_NAMESPACE
