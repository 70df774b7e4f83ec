#pragma once
// RowGroups: the rows of a table that belong together, such as the measurements of a series.

#include <soma/text/tables/table.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

// Neighbouring rows with one cell in a column are a group; a cell that comes again later begins
// another group. Where a data::ArraySource has sequences: `rows` for TableEncoder::encode(),
// `lengths` for data::Columns, and `first_rows` for what a series has once, such as its label.
struct RowGroups {
  // Errors table.column (no such column), table.cell (a missing cell), table.rows (no rows, or one
  // that the table lacks).
  RowGroups(const Table& table, std::string_view column);
  RowGroups(const Table& table, std::string_view column, std::span<const std::uint32_t> rows);

  std::vector<std::size_t> lengths{};
  std::vector<std::uint32_t> rows{}, first_rows{};
  std::vector<std::int64_t> groups{};  // each row's group by number, for data::SplitBy
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/tables/impl/row_groups.ipp>
#endif
