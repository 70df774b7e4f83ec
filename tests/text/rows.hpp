// Rows of a text in memory, in words: what tests of readers share.
#pragma once

#include <soma/text/row_reader.hpp>

#include "support/errors.hpp"

#include <string>
#include <string_view>

namespace soma_test {

// "label: text @line|" of each row.
inline std::string rows_of(std::string_view content, const soma::text::RowOptions& options) {
  soma::text::RowReader reader = soma::text::RowReader::of_memory(content, options);
  soma::text::Row row;
  std::string all;
  while (reader.next(row))
    all += row.label + ": " + row.text + " @" + std::to_string(row.line) + "|";
  return all;
}
inline std::string rows_of(std::string_view content, soma::text::Format format) {
  return rows_of(content, {.format = format});
}
inline std::string refusal(std::string_view content, const soma::text::RowOptions& options) {
  return message_of([&] { rows_of(content, options); });
}
inline std::string refusal(std::string_view content, soma::text::Format format) {
  return refusal(content, soma::text::RowOptions{.format = format});
}

}  // namespace soma_test
