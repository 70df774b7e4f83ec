#pragma once
// The functions of text_lines.hpp.

#include <soma/text/text_lines.hpp>

#include <soma/text/record_reader.hpp>
#include <soma/text/row_options.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE TextLines::TextLines(std::string_view path, std::string_view operation,
                                 const RowOptions& options)
    : records_(ByteSource::open(operation, path, options.stop), options.max_row_bytes) {}

SOMA_INLINE bool TextLines::next(std::string& text) {
  if (!records_.next_any_line(record_)) return false;
  std::optional<RowProblem> problem = std::move(record_.problem);
  if (!problem) problem = encoding_problem(record_.fields.front(), "text");
  if (problem)
    fail(problem->reason, records_.bytes().operation(), place(), problem->given, problem->wanted);
  text = std::move(record_.fields.front());
  return true;
}

SOMA_INLINE bool TextLines::must_wait() const {
  const ByteSource& bytes = records_.bytes();
  return bytes.held().find('\n') == std::string_view::npos && bytes.must_wait();
}

SOMA_INLINE std::string TextLines::place() const {
  return "line " + std::to_string(record_.line) + " of " + soma::quoted(records_.bytes().name());
}

}  // namespace SOMA_NAMESPACE::text
