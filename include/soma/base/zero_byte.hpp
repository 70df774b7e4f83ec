#pragma once
// Texts that a parser would take for shorter than they are.

#include <string_view>

namespace soma::detail {

// The JSON parser takes a zero byte for the end and does not look behind it: whoever calls it asks
// this first.
inline bool has_zero_byte(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

}  // namespace soma::detail
