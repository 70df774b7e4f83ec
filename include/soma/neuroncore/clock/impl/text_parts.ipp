#pragma once
// The functions of text_parts.hpp.

#include <soma/neuroncore/clock/text_parts.hpp>

#include <soma/base/fixed.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

SOMA_INLINE std::string microseconds(double ns) { return fixed(ns * 1e-3, 2); }

SOMA_INLINE std::int64_t whole_ns(double ns) { return std::llround(ns); }

SOMA_INLINE std::string trace_time(std::int64_t ns) {
  std::string text = std::to_string(ns / 1000);
  const auto rest = std::to_string(ns % 1000);
  return text.append(".").append(3 - rest.size(), '0').append(rest);
}

SOMA_INLINE std::string right(std::string_view text, std::size_t width) {
  std::string padded(width > text.size() ? width - text.size() : 0, ' ');
  return padded.append(text);
}

SOMA_INLINE std::string left(std::string_view text, std::size_t width) {
  std::string result(text);
  if (text.size() > width) result = "..." + std::string(text.substr(text.size() - width + 3));
  result.append(width - result.size(), ' ');
  return result;
}

SOMA_INLINE std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80                      ? 1
                             : first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0   ? 3
                             : first >= 0xf0 && first <= 0xf4u ? 4
                                                               : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (length > 2) {  // overlong forms, surrogates, what lies beyond Unicode
    const unsigned second = byte(1);
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
      return 0;
  }
  return length;
}

SOMA_INLINE JsonWriter& JsonWriter::begin(char bracket) {
  separate();
  text_.push_back(bracket);
  first_ = true;
  return *this;
}

SOMA_INLINE JsonWriter& JsonWriter::end(char bracket) {
  text_.push_back(bracket);
  first_ = false;
  return *this;
}

SOMA_INLINE JsonWriter& JsonWriter::key(std::string_view name) {
  string(name);
  text_.push_back(':');
  first_ = true;  // no comma before the value
  return *this;
}

SOMA_INLINE JsonWriter& JsonWriter::string(std::string_view value) {
  separate();
  constexpr std::string_view digits = "0123456789abcdef";
  text_.push_back('"');
  while (!value.empty()) {
    const std::size_t length = utf8_length(value);
    const char letter = value[0];
    if (length == 0) {
      text_.append("\\ufffd");
    } else if (letter == '"' || letter == '\\') {
      text_.append(1, '\\').push_back(letter);
    } else if (length == 1 && (static_cast<unsigned char>(letter) < 0x20 || letter == '<')) {
      const auto code = static_cast<unsigned char>(letter);
      text_.append("\\u00").append({digits[code >> 4], digits[code & 15]});
    } else {
      text_.append(value.substr(0, length));
    }
    value.remove_prefix(length == 0 ? 1 : length);
  }
  text_.push_back('"');
  return *this;
}

SOMA_INLINE JsonWriter& JsonWriter::raw(std::string_view value) {
  separate();
  text_.append(value);
  return *this;
}

SOMA_INLINE JsonWriter& JsonWriter::number(double value, int digits) {
  return raw(std::isfinite(value) ? fixed(value, digits) : "null");
}

SOMA_INLINE JsonWriter& JsonWriter::number(std::uint64_t value) {
  return raw(std::to_string(value));
}

SOMA_INLINE std::string JsonWriter::take() { return std::move(text_); }

SOMA_INLINE std::size_t JsonWriter::size() const { return text_.size(); }

SOMA_INLINE void JsonWriter::separate() {
  if (!first_) text_.push_back(',');
  first_ = false;
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail
