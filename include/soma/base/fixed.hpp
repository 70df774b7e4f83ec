#pragma once
// Numbers in decimal, for people and for files with columns.

#include <array>
#include <charconv>
#include <string>

namespace soma {

// `digits` digits after the point, up to 16. The point is a point in every locale.
inline std::string fixed(double value, int digits) {
  std::array<char, 336> text;  // 309 digits before the point
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits)
          .ptr;
  return {text.data(), end};
}

// The fewest digits that read back as the same float.
inline std::string float_text(float value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace soma
