#pragma once
// The functions of label_names.hpp.

#include <soma/text/rows/label_names.hpp>

#include <soma/base/error.hpp>
#include <soma/text/utf8.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE bool is_wide_space(char32_t point) {
  return point == 0x85 || point == 0xA0 || point == 0x1680 ||
         (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
         point == 0x202F || point == 0x205F || point == 0x3000;
}

SOMA_INLINE bool is_invisible(char32_t point) {
  return point == 0xAD || point == 0x61C || point == 0x180E ||
         (point >= 0x200B && point <= 0x200F) || (point >= 0x202A && point <= 0x202E) ||
         (point >= 0x2060 && point <= 0x2069) || point == 0xFEFF;
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE std::string_view trimmed_label(std::string_view label) {
  std::size_t begin = label.size(), end = 0;
  for (std::size_t at = 0; at < label.size();) {
    const CodePoint point = decode_utf8(label, at);
    const bool around =
        point.valid && (point.value == ' ' || point.value == '\t' ||
                        detail::is_wide_space(point.value) || detail::is_invisible(point.value));
    if (!around) {
      begin = begin < at ? begin : at;
      end = at + point.bytes;
    }
    at += point.bytes;
  }
  return begin < end ? label.substr(begin, end - begin) : std::string_view();
}

SOMA_INLINE std::string visible_label(std::string_view label) {
  std::string result;
  for (std::size_t at = 0; at < label.size();) {
    const CodePoint point = decode_utf8(label, at);
    const bool space = point.valid && (point.value == ' ' || detail::is_wide_space(point.value));
    if (space && !result.empty() && result.back() != ' ') result.push_back(' ');
    if (!space && !(point.valid && detail::is_invisible(point.value)))
      result.append(label.substr(at, point.bytes));
    at += point.bytes;
  }
  return result;
}

SOMA_INLINE std::string quoted_label(std::string_view label) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string shown;
  for (std::size_t at = 0; at < label.size();) {
    const CodePoint point = decode_utf8(label, at);
    if (point.valid && (detail::is_wide_space(point.value) || detail::is_invisible(point.value))) {
      std::string number;
      for (char32_t rest = point.value; rest != 0; rest >>= 4)
        number.insert(number.begin(), digits[rest & 15]);
      shown.append("<U+").append(number.size() < 4 ? 4 - number.size() : 0, '0');
      shown.append(number).append(">");
    } else {
      shown.append(label.substr(at, point.bytes));
    }
    at += point.bytes;
  }
  return soma::quoted(shown);
}

SOMA_INLINE void check_label_separator(std::string_view operation,
                                       std::span<const std::string> labels, char separator) {
  const std::set<std::string_view> known(labels.begin(), labels.end());
  for (const char other : {',', ';', '|'}) {
    if (other == separator) continue;
    for (const std::string& label : labels) {
      const std::size_t at = label.find(other);
      if (at == std::string::npos) continue;
      // If a part is a label of another row, the whole is not one label.
      const std::string_view first = trimmed_label(std::string_view(label).substr(0, at));
      if (known.count(first) != 0)
        fail(error_id::text_label_separator, operation, "label",
             quoted_label(label) + ", which holds the label " + quoted_label(first),
             std::string("labels separated by '") + separator + "', or another label_separator");
    }
  }
}

}  // namespace SOMA_NAMESPACE::text
