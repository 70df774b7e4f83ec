#pragma once
// The columns of a table that hold the text and the label.

#include <soma/text/row_options.hpp>
#include <soma/text/rows/column_names.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace SOMA_NAMESPACE::text {

// The text as a whole number in decimal; not set if it is none.
std::optional<std::int64_t> whole_number(std::string_view text);

// The text as a number that a float holds, such as "0.5", "-3", "1e-2"; not set if it is none.
std::optional<float> real_number(std::string_view text);

struct Columns {
  std::size_t count = 0;             // columns of the table
  std::vector<std::size_t> texts{};  // from 0; joined in this order
  std::optional<std::size_t> pair{};
  std::size_t label = 1;
  std::vector<std::size_t> flags{};  // label_columns, which replace `label`
};

namespace detail {

bool is_name(std::string_view column);

// The columns of the text from the options; empty if the options name none.
std::vector<std::string> text_columns_of(const RowOptions& options);
bool gives_names(const RowOptions& options);
bool gives_columns(const RowOptions& options);
// True if a cell of the first row is the name of a text or label column.
bool has_usual_name(Fields first);

// Finds the columns of one table from the options and the names of its header.
class ColumnFinder {
 public:
  ColumnFinder(std::string_view operation, std::string_view file, Fields first, bool has_header)
      : operation_(operation), file_(file), first_(first), has_header_(has_header) {}

  // Errors as of find_columns().
  Columns find(const RowOptions& options) const;

 private:
  // The column of an option; not set if the option is empty. Error text.column.
  std::optional<std::size_t> given(std::string_view option, std::string_view column) const;
  // The column that is neither text nor pair, if there is exactly one.
  static std::optional<std::size_t> only_other(const Columns& columns);
  void check_apart(const Columns& columns) const;
  // Error text.column.
  void check_flags(const RowOptions& options) const;

  std::string_view operation_, file_;
  Fields first_;
  bool has_header_;
};

}  // namespace detail

// The columns of a table whose first row is `first`. Error text.column: there is no such column,
// one column serves both, or more than two columns leave the choice open.
Columns find_columns(std::string_view operation, std::string_view file, const RowOptions& options,
                     detail::Fields first, bool has_header);

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/columns.ipp>
#endif
