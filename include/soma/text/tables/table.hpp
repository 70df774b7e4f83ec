#pragma once
// Table: columns of numbers and of categories in memory, read from a CSV file.

#include <soma/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

enum class ColumnKind : std::uint8_t { number, category };

struct TableColumn {
  std::string name{};
  ColumnKind kind = ColumnKind::number;
  std::vector<double> numbers{};          // number: one a row, finite; NaN: it is missing
  std::vector<std::string> categories{};  // category: its names, sorted as sort_labels() does
  std::vector<std::int32_t> codes{};      // category: index into them, one a row; -1: missing

  // The number of rows without a value in this column.
  std::size_t missing() const;
};

// Memory: 8 bytes a number, 4 a category, and the names of categories.
struct Table {
  std::vector<TableColumn> columns{};
  std::size_t rows = 0;
  std::string source{};  // the file, for messages

  const TableColumn* find(std::string_view name) const;
  // The column of that name. Error table.column, which lists the names.
  const TableColumn& column(std::string_view name) const;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/tables/impl/table.ipp>
#endif
