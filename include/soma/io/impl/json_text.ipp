#pragma once
// The functions of json_text.hpp.

#include <soma/io/json_text.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::optional<std::string> json_text(std::string_view content) {
  constexpr std::string_view escaped = "\b\t\n\f\r\"\\", letters = "btnfr\"\\";
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(1, '"');
  for (const char letter : content) {
    const auto code = static_cast<unsigned char>(letter);
    if (const std::size_t known = escaped.find(letter); known != std::string_view::npos)
      text.append(1, '\\').push_back(letters[known]);
    else if (code < 0x20)
      text.append("\\u00").append({digits[code >> 4], digits[code & 15]});
    else
      text.push_back(letter);
  }
  text.push_back('"');
  if (!nlohmann::json::accept(text)) return std::nullopt;
  return text;
}

}  // namespace SOMA_NAMESPACE::detail
