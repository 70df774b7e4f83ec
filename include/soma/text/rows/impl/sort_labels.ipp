#pragma once
// The functions of sort_labels.hpp.

#include <soma/text/rows/sort_labels.hpp>

#include <soma/text/columns.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE void sort_labels(std::vector<std::string>& labels) {
  const bool numbers = std::all_of(labels.begin(), labels.end(), [](const std::string& label) {
    return whole_number(label).has_value();
  });
  std::sort(labels.begin(), labels.end(), [&](const std::string& a, const std::string& b) {
    const auto x = numbers ? whole_number(a) : 0, y = numbers ? whole_number(b) : 0;
    return x != y ? x < y : a < b;
  });
}

}  // namespace SOMA_NAMESPACE::text
