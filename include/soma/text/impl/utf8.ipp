#pragma once
// The functions of utf8.hpp.

#include <soma/text/utf8.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE CodePoint decode_utf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned lead = byte(at);
  if (lead < 0x80) return {lead, 1, true};
  if (lead < 0xC2 || lead > 0xF4) return {};
  // After four lead bytes, the next byte has a narrower range: this excludes overlong forms,
  // surrogates, and values beyond U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  const unsigned second = byte(at + 1);
  if (second < low || second > high) return {};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (second & 0x3F), 2, true};
  const unsigned third = byte(at + 2);
  if ((third & 0xC0) != 0x80) return {replacement, 2, false};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (second & 0x3F) << 6 | (third & 0x3F), 3, true};
  const unsigned fourth = byte(at + 3);
  if ((fourth & 0xC0) != 0x80) return {replacement, 3, false};
  return {(lead & 0x07) << 18 | (second & 0x3F) << 12 | (third & 0x3F) << 6 | (fourth & 0x3F), 4,
          true};
}

SOMA_INLINE bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid) return false;
    at += point.bytes;
  }
  return true;
}

SOMA_INLINE bool are_plain_ascii(const char* bytes) {
  constexpr std::uint64_t ones = 0x0101010101010101u, highs = ones << 7;
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  // Below 0x80, the subtraction borrows from a byte's highest bit only if the byte is zero.
  return ((word | (word - ones)) & highs) == 0;
}

SOMA_INLINE std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (text.size() - at >= 8 && are_plain_ascii(text.data() + at)) {
      at += 8;
      continue;
    }
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid || point.value == 0) return at;
    at += point.bytes;
  }
  return std::string_view::npos;
}

SOMA_INLINE void append_utf8(std::string& text, char32_t point) {
  const auto tail = [&](unsigned shift) {
    text.push_back(static_cast<char>(0x80 | (point >> shift & 0x3F)));
  };
  if (point < 0x80) {
    text.push_back(static_cast<char>(point));
  } else if (point < 0x800) {
    text.push_back(static_cast<char>(0xC0 | point >> 6));
    tail(0);
  } else if (point < 0x10000) {
    text.push_back(static_cast<char>(0xE0 | point >> 12));
    tail(6);
    tail(0);
  } else {
    text.push_back(static_cast<char>(0xF0 | point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

SOMA_INLINE void Utf16Decoder::add(char first, char second, std::string& text) {
  const unsigned one = static_cast<unsigned char>(first),
                 other = static_cast<unsigned char>(second);
  const std::uint32_t unit = big_endian_ ? one << 8 | other : other << 8 | one;
  const bool is_high = unit >= 0xD800 && unit < 0xDC00, is_low = unit >= 0xDC00 && unit < 0xE000;
  const std::uint32_t high = std::exchange(high_, 0);
  if (is_low && high != 0) {
    append_utf8(text, 0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00));
    return;
  }
  if (high != 0 || is_low) text.push_back(no_utf8);
  if (is_high) high_ = unit;
  if (!is_high && !is_low) append_utf8(text, unit);
}

SOMA_INLINE bool Utf16Decoder::take_half() { return std::exchange(high_, 0) != 0; }

}  // namespace SOMA_NAMESPACE::text
