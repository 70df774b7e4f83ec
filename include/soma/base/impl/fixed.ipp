#pragma once
// The functions of fixed.hpp.

#include <soma/base/fixed.hpp>

#include <array>
#include <charconv>
#include <string>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::string fixed(double value, int digits) {
  std::array<char, 336> text;  // 309 digits before the point
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits)
          .ptr;
  return {text.data(), end};
}

SOMA_INLINE std::string float_text(float value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace SOMA_NAMESPACE
