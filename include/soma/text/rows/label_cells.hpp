#pragma once
// The labels of a row, from a cell or from columns of 0 and 1.

#include <soma/text/record_reader.hpp>
#include <soma/text/row_options.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::text {

// Adds a label to a row with several, unless the row has it.
void add_label(std::string_view label, Row& row);

// The label, or the labels, of a cell: with RowOptions::label_separator between, or a list. The
// problem is always text.row_label.
std::optional<RowProblem> take_labels(std::string_view cell, const RowOptions& options, Row& row);

// The classes whose columns have a 1. `columns`: their indices; `header`: the names of all columns.
// The problem is always text.row_label.
std::optional<RowProblem> take_flags(std::span<const std::string> fields,
                                     std::span<const std::size_t> columns,
                                     std::span<const std::string> header, Row& row);

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/rows/impl/label_cells.ipp>
#endif
