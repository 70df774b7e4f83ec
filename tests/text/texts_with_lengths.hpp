// Texts on standard input, as the scripts that compare tokenizers write them: the length (4 bytes,
// little-endian) and the bytes of each.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace soma_test {

// False at the end, and for a text that is cut off.
inline bool read_text(std::string& text) {
  unsigned char length[4];
  if (std::fread(length, 1, 4, stdin) != 4) return false;
  text.resize(length[0] | length[1] << 8 | length[2] << 16 | std::size_t{length[3]} << 24);
  return std::fread(text.data(), 1, text.size(), stdin) == text.size();
}

// In hexadecimal digits: without spaces and line breaks, which would look like the format's own.
inline std::string hex_of(const std::string& bytes) {
  std::string digits;
  for (const char byte : bytes) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(byte));
    digits += hex;
  }
  return digits;
}

}  // namespace soma_test
