#pragma once
// The functions of text_stream.hpp.

#include <soma/text/byte_pairs/text_stream.hpp>

#include <soma/text/utf8.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::text::detail {

// The bytes at the end that begin a character whose last bytes are missing.
SOMA_INLINE std::size_t incomplete_bytes(std::string_view bytes) {
  for (std::size_t count = 1; count <= 3 && count <= bytes.size(); ++count) {
    const std::size_t at = bytes.size() - count;
    const auto lead = static_cast<unsigned char>(bytes[at]);
    if ((lead & 0xC0) == 0x80) continue;
    const std::size_t wanted = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    // Bytes that no character begins with are not held.
    const CodePoint point = decode_utf8(bytes, at);
    return wanted > count && !point.valid && point.bytes == count ? count : 0;
  }
  return 0;
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE std::string TextStream::add(std::int32_t id) {
  if (tokenizer_.is_special(id)) return {};
  std::string bytes = tokenizer_.bytes_of(id);
  if (!begun_ && !bytes.empty()) {
    begun_ = true;
    if (tokenizer_.strips_first_space() && bytes.starts_with(' ')) bytes.erase(0, 1);
  }
  held_ += bytes;
  const std::size_t complete = held_.size() - detail::incomplete_bytes(held_);
  std::string text = held_.substr(0, complete);
  held_.erase(0, complete);
  return detail::repaired_utf8(std::move(text));
}

SOMA_INLINE std::string TextStream::finish() {
  begun_ = false;
  return detail::repaired_utf8(std::exchange(held_, {}));
}

}  // namespace SOMA_NAMESPACE::text
