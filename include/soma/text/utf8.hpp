#pragma once
// Tolerant UTF-8: invalid bytes read as U+FFFD, one for each maximal part of a sequence (as in the
// web's decoders and Python's errors="replace"). Readers count them.

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::text {

inline constexpr char32_t replacement = 0xFFFD;

struct CodePoint {
  char32_t value = replacement;
  std::uint32_t bytes = 1;  // that it takes in the text
  bool valid = false;       // false: `value` stands for bytes that are no UTF-8
};

// The code point that begins at `at`, which is less than text.size().
CodePoint decode_utf8(std::string_view text, std::size_t at);

bool is_utf8(std::string_view text);

// True if the eight bytes from there on are ASCII and none is zero.
bool are_plain_ascii(const char* bytes);

// The index of the first byte that is zero or begins no valid sequence; npos if there is none.
std::size_t find_invalid_utf8(std::string_view text);

// `point` must be a code point and no surrogate.
void append_utf8(std::string& text, char32_t point);

// Makes UTF-8 of UTF-16, unit by unit. Half of a pair becomes a byte that UTF-8 never has, so that
// readers refuse it.
class Utf16Decoder {
 public:
  static constexpr char no_utf8 = '\xFF';
  static constexpr std::size_t most_bytes = 4;  // that a unit adds

  explicit Utf16Decoder(bool big_endian = false) : big_endian_(big_endian) {}

  // The unit of these bytes, in the file's order.
  void add(char first, char second, std::string& text);
  // True once if the first half of a pair has no second.
  bool take_half();

 private:
  bool big_endian_;
  std::uint32_t high_ = 0;  // the first half of a pair; 0: none
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/utf8.ipp>
#endif
