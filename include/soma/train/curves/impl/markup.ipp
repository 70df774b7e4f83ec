#pragma once
// The functions of markup.hpp.

#include <soma/train/curves/markup.hpp>

#include <soma/text/utf8.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE bool is_markup_character(char32_t point) {
  if (point < 0x20) return point == '\t' || point == '\n';
  return (point < 0x7F || point > 0x9F) && point != 0xFFFE && point != 0xFFFF;
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE std::string markup_text(std::string_view text, std::size_t most) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); --most) {
    if (most == 0) return result.append("\xE2\x80\xA6");
    const text::CodePoint point = text::decode_utf8(text, at);
    at += point.bytes;
    switch (point.value) {
      case '<':
        result.append("&lt;");
        break;
      case '>':
        result.append("&gt;");
        break;
      case '&':
        result.append("&amp;");
        break;
      case '"':
        result.append("&quot;");
        break;
      case '\'':
        result.append("&#39;");
        break;
      default:
        text::append_utf8(result, point.valid && detail::is_markup_character(point.value)
                                      ? point.value
                                      : text::replacement);
    }
  }
  return result;
}

}  // namespace SOMA_NAMESPACE::train
