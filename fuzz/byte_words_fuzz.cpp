// Any bytes as a text: each pattern of words cuts it into words without a gap, and a tokenizer of
// all bytes and a few merges gives back every valid text. The first byte chooses the pattern.

#include <soma/text/byte_pairs/byte_tokenizer.hpp>
#include <soma/text/utf8.hpp>

#include "check.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

// Ids 0 to 255 are the bytes; the others double the one before: "  ", "    ", "aa", ...
soma::text::ByteTokenizer tokenizer_of(soma::text::WordPattern pattern) {
  soma::text::ByteTokenizerParts parts;
  parts.pattern = pattern;
  for (int byte = 0; byte < 256; ++byte) parts.pieces.emplace_back(1, static_cast<char>(byte));
  for (const std::int32_t byte : std::array{0x20, 0x61, 0x0a, 0xe3, 0x31}) {
    std::int32_t last = byte;
    for (int i = 0; i < 3; ++i) {
      const auto id = static_cast<std::int32_t>(parts.pieces.size());
      const std::string piece = parts.pieces[static_cast<std::size_t>(last)];
      parts.pieces.push_back(piece + piece);
      parts.merges.push_back({.left = last, .right = last, .result = id});
      last = id;
    }
  }
  return soma::text::ByteTokenizer(std::move(parts));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace soma::text;
  constexpr std::array patterns{WordPattern::gpt2, WordPattern::digits_gpt2, WordPattern::qwen2,
                                WordPattern::llama3, WordPattern::whole};
  static const std::array tokenizers{tokenizer_of(patterns[0]), tokenizer_of(patterns[1]),
                                     tokenizer_of(patterns[2]), tokenizer_of(patterns[3]),
                                     tokenizer_of(patterns[4])};
  if (size == 0) return 0;
  const std::size_t which = data[0] % patterns.size();
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<std::int32_t> ids;
  tokenizers[which].append_ids(text, ids);
  const std::string back = tokenizers[which].decode(ids, false);
  if (!is_utf8(text)) return 0;
  soma_fuzz::check(back == text, "a valid text comes back");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = word_end(patterns[which], text, at);
    soma_fuzz::check(end > at && end <= text.size(), "a word has bytes");
    at = end;
  }
  return 0;
}
