#pragma once
// The functions of row_groups.hpp.

#include <soma/text/tables/row_groups.hpp>

#include <soma/base/error.hpp>
#include <soma/text/tables/table.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE std::vector<std::uint32_t> rows_of(const Table& table) {
  std::vector<std::uint32_t> rows(table.rows);
  std::iota(rows.begin(), rows.end(), 0u);
  return rows;
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE RowGroups::RowGroups(const Table& table, std::string_view column)
    : RowGroups(table, column, detail::rows_of(table)) {}

SOMA_INLINE RowGroups::RowGroups(const Table& table, std::string_view column,
                                 std::span<const std::uint32_t> of_rows)
    : rows(of_rows.begin(), of_rows.end()) {
  const TableColumn& source = table.column(column);
  if (rows.empty()) fail(error_id::table_rows, "RowGroups", "rows", "none", "one at least");
  const bool numbers = source.kind == ColumnKind::number;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint32_t row = rows[i];
    if (row >= table.rows)
      fail(error_id::table_rows, "RowGroups", "row", std::to_string(row),
           "below " + std::to_string(table.rows) + ", the rows of " + soma::quoted(table.source));
    if (numbers ? std::isnan(source.numbers[row]) : source.codes[row] < 0)
      fail(error_id::table_cell, "RowGroups",
           "column " + soma::quoted(column) + " in row " + std::to_string(row + 1) + " of " +
               soma::quoted(table.source),
           "missing", "a cell");
    const std::uint32_t before = i == 0 ? row : rows[i - 1];
    const bool same = i != 0 && (numbers ? source.numbers[row] == source.numbers[before]
                                         : source.codes[row] == source.codes[before]);
    if (same) {
      ++lengths.back();
    } else {
      lengths.push_back(1);
      first_rows.push_back(row);
    }
    groups.push_back(static_cast<std::int64_t>(lengths.size()) - 1);
  }
}

}  // namespace SOMA_NAMESPACE::text
