#pragma once
// The order of classes and categories.

#include <soma/text/columns.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::text {

// Ascending: by value if all labels are whole numbers, else by bytes.
void sort_labels(std::vector<std::string>& labels);

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/rows/impl/sort_labels.ipp>
#endif
