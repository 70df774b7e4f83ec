#pragma once
// The functions of label_cells.hpp.

#include <soma/base/contains.hpp>
#include <soma/text/rows/label_cells.hpp>

#include <soma/text/columns.hpp>
#include <soma/text/rows/label_list.hpp>
#include <soma/text/rows/label_names.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE std::optional<RowProblem> take_list(std::string_view cell, Row& row) {
  const std::optional<std::vector<std::string>> labels = read_label_list(cell);
  if (!labels)
    return RowProblem{error_id::text_row_label, "labelled " + soma::quoted(cell),
                      "a whole list, such as ['a', \"b\"]"};
  for (const std::string& label : *labels) add_label(label, row);
  return std::nullopt;
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE void add_label(std::string_view label, Row& row) {
  label = trimmed_label(label);
  if (!contains(row.labels, label)) row.labels.emplace_back(label);
}

SOMA_INLINE std::optional<RowProblem> take_labels(std::string_view cell, const RowOptions& options,
                                                  Row& row) {
  cell = trimmed_label(cell);
  if (options.labels != data::LabelKind::several) {
    row.label = cell;
    if (begins_label_list(cell) && read_label_list(cell))
      return RowProblem{error_id::text_row_label, "labelled " + soma::quoted(cell) + ", a list",
                        "one label, or several in each row (--multi-label)"};
    return std::nullopt;
  }
  if (cell.empty()) return std::nullopt;  // none of the classes
  if (begins_label_list(cell) || (cell.front() == '[' && read_label_list(cell)))
    return detail::take_list(cell, row);
  for (std::size_t begin = 0; begin <= cell.size();) {
    const std::size_t end = (std::min)(cell.find(options.label_separator, begin), cell.size());
    add_label(cell.substr(begin, end - begin), row);
    begin = end + 1;
  }
  return std::nullopt;
}

SOMA_INLINE std::optional<RowProblem> take_flags(std::span<const std::string> fields,
                                                 std::span<const std::size_t> columns,
                                                 std::span<const std::string> header, Row& row) {
  for (const std::size_t column : columns) {
    const std::string_view cell = trimmed(fields[column]);
    const std::string_view name = trimmed_label(header[column]);
    const std::optional<float> number = real_number(cell);
    if (number == 1.0f || cell == "true" || cell == "True" || cell == "TRUE")
      add_label(name, row);
    else if (number != 0.0f && !cell.empty() && cell != "false" && cell != "False" &&
             cell != "FALSE")
      return RowProblem{error_id::text_row_label,
                        soma::quoted(cell) + " in column " + soma::quoted(name),
                        "0 or 1 in each of label_columns (--label-columns)"};
  }
  return std::nullopt;
}

}  // namespace SOMA_NAMESPACE::text
