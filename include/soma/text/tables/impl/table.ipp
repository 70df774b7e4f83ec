#pragma once
// The functions of table.hpp.

#include <soma/text/tables/table.hpp>

#include <soma/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE std::size_t TableColumn::missing() const {
  std::size_t count = 0;
  for (const double number : numbers) count += number != number ? 1u : 0u;
  for (const std::int32_t code : codes) count += code < 0 ? 1u : 0u;
  return count;
}

SOMA_INLINE const TableColumn* Table::find(std::string_view name) const {
  for (const TableColumn& column : columns)
    if (column.name == name) return &column;
  return nullptr;
}

SOMA_INLINE const TableColumn& Table::column(std::string_view name) const {
  if (const TableColumn* found = find(name)) return *found;
  std::string names;
  for (const TableColumn& column : columns)
    names.append(names.empty() ? "" : ", ").append(soma::quoted(column.name));
  fail(error_id::table_column, "Table", "column of " + soma::quoted(source), soma::quoted(name),
       names.empty() ? "a table with columns" : "one of " + names);
}

}  // namespace SOMA_NAMESPACE::text
