#pragma once
// A cell with a list of labels, as Python and JSON write lists: ['a', "b"], [1, 2], [].

#include <soma/base/config.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

// True if the cell begins as a list whose first element is a text: with [' or [", or as Python
// writes tuples and sets, with (' or {'.
bool begins_label_list(std::string_view cell);

// The elements of a list of texts, numbers and truth values, in brackets of one kind; not set if
// the cell is no whole list. `cell` has no spaces around it.
std::optional<std::vector<std::string>> read_label_list(std::string_view cell);

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/rows/impl/label_list.ipp>
#endif
