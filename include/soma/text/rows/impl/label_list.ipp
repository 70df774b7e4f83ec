#pragma once
// The functions of label_list.hpp.

#include <soma/text/rows/label_list.hpp>

#include <soma/text/columns.hpp>
#include <soma/text/utf8.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

// Reads one list. Each function moves on behind what it has read, or returns nothing.
class LabelListReader {
 public:
  explicit LabelListReader(std::string_view cell) : rest_(cell) {}

  std::optional<std::vector<std::string>> read() {
    const char open = take();
    const char close = open == '[' ? ']' : open == '(' ? ')' : open == '{' ? '}' : '\0';
    if (close == '\0') return std::nullopt;
    std::vector<std::string> labels;
    for (skip_spaces(); peek() != close; skip_spaces()) {
      const std::optional<std::string> label = element(close);
      if (!label) return std::nullopt;
      labels.push_back(*label);
      skip_spaces();
      // numpy writes spaces between elements.
      if (peek() == ',') take();
    }
    take();
    if (!rest_.empty()) return std::nullopt;
    return labels;
  }

 private:
  char peek() const { return rest_.empty() ? '\0' : rest_.front(); }
  char take() {
    const char first = peek();
    rest_.remove_prefix(rest_.empty() ? 0 : 1);
    return first;
  }
  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') take();
  }

  std::optional<std::string> element(char close) {
    if (peek() == '\'' || peek() == '"') return quoted_text();
    std::size_t size = 0;
    while (size < rest_.size() && rest_[size] != ',' && rest_[size] != ' ' && rest_[size] != close)
      ++size;
    const std::string_view word = rest_.substr(0, size);
    rest_.remove_prefix(size);
    const bool known =
        real_number(word) || word == "true" || word == "false" || word == "True" || word == "False";
    return known ? std::optional<std::string>(word) : std::nullopt;
  }

  std::optional<std::string> quoted_text() {
    const char mark = take();
    std::string text;
    while (!rest_.empty()) {
      const char next = take();
      if (next == mark) return text;
      if (next != '\\')
        text.push_back(next);
      else if (!add_escaped(text))
        return std::nullopt;
    }
    return std::nullopt;
  }
  // The escapes that Python's repr() and JSON write.
  bool add_escaped(std::string& text) {
    const char kind = take();
    const std::size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (digits != 0) {
      std::optional<std::uint32_t> point = hex(digits);
      if (point && *point >= 0xD800 && *point < 0xDC00) {
        const bool pair = take() == '\\' && take() == 'u';
        const std::optional<std::uint32_t> low = pair ? hex(4) : std::nullopt;
        if (!low || *low < 0xDC00 || *low > 0xDFFF) return false;
        point = 0x10000 + ((*point - 0xD800) << 10) + (*low - 0xDC00);
      }
      if (!point || *point > 0x10FFFF || (*point >= 0xD800 && *point < 0xE000)) return false;
      append_utf8(text, *point);
      return true;
    }
    constexpr std::string_view kinds = "\\'\"/nrtbf", meant = "\\'\"/\n\r\t\b\f";
    const std::size_t at = kinds.find(kind);
    if (at == kinds.npos) return false;
    text.push_back(meant[at]);
    return true;
  }
  std::optional<std::uint32_t> hex(std::size_t digits) {
    if (rest_.size() < digits) return std::nullopt;
    std::uint32_t value = 0;
    const char* end = rest_.data() + digits;
    const auto found = std::from_chars(rest_.data(), end, value, 16);
    if (found.ec != std::errc() || found.ptr != end) return std::nullopt;
    rest_.remove_prefix(digits);
    return value;
  }

  std::string_view rest_;
};

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE bool begins_label_list(std::string_view cell) {
  if (cell.empty() || std::string_view("[({").find(cell.front()) == std::string_view::npos)
    return false;
  cell = trimmed(cell.substr(1));
  return cell.starts_with('\'') || cell.starts_with('"');
}

SOMA_INLINE std::optional<std::vector<std::string>> read_label_list(std::string_view cell) {
  return detail::LabelListReader(cell).read();
}

}  // namespace SOMA_NAMESPACE::text
