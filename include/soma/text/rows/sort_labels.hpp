#pragma once
// The order of classes and categories.

#include <soma/text/columns.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace soma::text {

// Ascending: by value if all labels are whole numbers, else by bytes.
inline void sort_labels(std::vector<std::string>& labels) {
  const bool numbers = std::ranges::all_of(
      labels, [](const std::string& label) { return whole_number(label).has_value(); });
  std::ranges::sort(labels, [&](const std::string& a, const std::string& b) {
    const auto x = numbers ? whole_number(a) : 0, y = numbers ? whole_number(b) : 0;
    return x != y ? x < y : a < b;
  });
}

}  // namespace soma::text
