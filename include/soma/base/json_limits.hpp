#pragma once
// Checks of a text from outside before the JSON parser reads it.

#include <cstddef>
#include <string_view>

namespace soma {

namespace detail {

// The parser takes a zero byte for the end of the text and ignores the rest.
inline bool has_zero_byte(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

}  // namespace detail

// Returns true if the text may become a tree. The parser itself limits its depth, but copying,
// comparing and printing a tree recurse once per level: a file of some 100 KiB could use up the
// stack. No file that soma reads has ten levels.
inline bool may_be_tree(std::string_view text) {
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

}  // namespace soma
