#pragma once
// The functions of json_limits.hpp.

#include <soma/base/json_limits.hpp>

#include <cstddef>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE bool has_zero_byte(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE bool may_be_tree(std::string_view text) {
  constexpr std::size_t most = 100;
  std::size_t depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (letter == '"') in_text = !in_text;
    if (in_text && letter == '\\') ++i;  // an escaped character ends no text
    if (in_text) continue;
    if ((letter == '[' || letter == '{') && ++depth > most) return false;
    if ((letter == ']' || letter == '}') && depth != 0) --depth;
  }
  return !detail::has_zero_byte(text);
}

}  // namespace SOMA_NAMESPACE
