#pragma once
// The functions of row_options.hpp.

#include <soma/text/row_options.hpp>

#include <soma/base/error.hpp>
#include <soma/data/labels.hpp>
#include <soma/runtime/stop_flag.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE void count_skipped(std::vector<SkippedRows>& skipped, const SkippedRows& more) {
  for (SkippedRows& entry : skipped)
    if (entry.reason == more.reason) {
      entry.rows += more.rows;
      return;
    }
  skipped.push_back(more);
}

}  // namespace SOMA_NAMESPACE::text
