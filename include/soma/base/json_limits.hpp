#pragma once
// What is asked of a text from outside before the JSON parser gets it.

#include <cstddef>
#include <string_view>

namespace soma::detail {

// The parser takes a zero byte for the end and does not look behind it.
inline bool has_zero_byte(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

// Of a text that becomes a tree, whether that may be. The parser itself counts levels, but copying,
// comparing and printing a tree calls itself for each: a file of some 100 KiB would use up the
// stack. No file that soma reads has ten of them.
inline bool may_be_tree(std::string_view text) {
  constexpr std::size_t most = 100;
  std::size_t depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (letter == '"') in_text = !in_text;
    if (in_text && letter == '\\') ++i;  // what follows ends no text
    if (in_text) continue;
    if ((letter == '[' || letter == '{') && ++depth > most) return false;
    if ((letter == ']' || letter == '}') && depth != 0) --depth;
  }
  return !has_zero_byte(text);
}

}  // namespace soma::detail
