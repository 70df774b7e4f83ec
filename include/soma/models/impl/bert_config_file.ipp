#pragma once
// The functions of bert_config_file.hpp.

#include <soma/models/bert_config_file.hpp>

#include <soma/data/labels.hpp>
#include <soma/models/bert.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

SOMA_INLINE std::string default_label(std::size_t i) { return "LABEL_" + std::to_string(i); }

SOMA_INLINE void check_labels(std::string_view operation, const std::vector<std::string>& labels) {
  std::vector<std::string_view> sorted(labels.begin(), labels.end());
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    fail(error_id::config_value, operation, "label", soma::quoted(*twice) + " twice",
         "labels that differ");
  for (const std::string& label : labels)
    if (label.empty() || label.find_first_of("\t\r\n") != std::string::npos)
      fail(error_id::config_value, operation, "label", soma::quoted(label),
           "a label without tabs and line ends, and not empty");
}

}  // namespace SOMA_NAMESPACE::models::detail
