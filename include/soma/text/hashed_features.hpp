#pragma once
// HashedFeatures: maps a text to row numbers of a table: its words, runs of neighbouring words and
// parts of words, each hashed to one of 2^bits rows. There is no vocabulary to build or to store.
//
// The mapping is frozen under a version (tests hold known answers) and the same on every CPU: bytes
// count as unsigned, and all arithmetic uses 64-bit integers.

#include <soma/base/error.hpp>
#include <soma/base/record.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

enum class TokenKind : std::uint8_t {
  words,                  // runs of bytes between spaces, tabs and line ends
  words_and_punctuation,  // runs of letters, digits and bytes beyond ASCII; marks by themselves
  characters,             // each run of `window` code points of the whole text, spaces included
};

inline constexpr std::string_view token_kind_names[] = {"words", "words_and_punctuation",
                                                        "characters"};
constexpr std::string_view to_string(TokenKind kind) {
  return token_kind_names[static_cast<std::size_t>(kind)];
}

// ASCII letters count as lower case. A text that is shorter than `window` is one window.
struct HashedFeatureOptions {
  TokenKind tokens = TokenKind::words_and_punctuation;
  std::size_t window = 4;  // code points, 1 to 64; of TokenKind::characters only
  std::size_t ngrams = 2;  // runs of 1 to `ngrams` neighbouring tokens are features; 1 to 8
  // Word parts, beside whole words: each run of this number of code points of "<word>", 2 to 64; 0:
  // none.
  std::size_t parts = 0;
  int bits = 20;  // 2^bits rows, 10 to 26
  std::uint64_t seed = 0;
};

class HashedFeatures {
 public:
  static constexpr std::uint64_t version = 1;

  // Error text.features: an option out of its range.
  explicit HashedFeatures(const HashedFeatureOptions& options = {});

  const HashedFeatureOptions& options() const { return options_; }
  std::size_t rows() const;
  void describe(soma::Record& record) const;

  // Appends the features of a text, in a fixed order, one for each occurrence; a text without
  // tokens has one special feature. `tokens` is scratch memory that a caller with many texts keeps.
  // A few nanoseconds a byte.
  void add(std::string_view text, std::vector<std::int32_t>& ids,
           std::vector<std::uint64_t>& tokens) const;
  void add(std::string_view text, std::vector<std::int32_t>& ids) const;

 private:
  static constexpr std::uint64_t golden = 0x9E3779B97F4A7C15u;  // 2^64 by the golden ratio
  static constexpr std::uint64_t first = 0x243F6A8885A308D3u;   // the first bits of pi's fraction
  static constexpr std::uint64_t prime = 0x100000001B3u;        // the prime of FNV-1a

  enum class Class : std::uint8_t { space, word, mark };

  // Three shifts and two products with an odd number of mixed bits: a bijection.
  static constexpr std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
  }
  std::int32_t row_of(std::uint64_t hash) const;

  static constexpr bool is_space(unsigned char byte) { return byte <= 0x20; }
  static constexpr Class class_of(unsigned char byte) {
    if (is_space(byte)) return Class::space;
    const bool letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
    return letter || (byte >= '0' && byte <= '9') || byte >= 0x80 ? Class::word : Class::mark;
  }
  static constexpr unsigned char lower(unsigned char byte) {
    return byte >= 'A' && byte <= 'Z' ? static_cast<unsigned char>(byte + 32) : byte;
  }
  static constexpr std::uint64_t added(std::uint64_t hash, unsigned char byte) {
    return (hash ^ lower(byte)) * prime;
  }
  static constexpr bool continues(unsigned char byte) { return (byte & 0xC0) == 0x80; }

  void add_words(std::string_view text, std::vector<std::uint64_t>& tokens,
                 std::vector<std::int32_t>& ids) const;
  static const unsigned char* start_of(std::string_view text);

  // Adds runs of `parts` code points of "<word>".
  void add_parts(std::string_view word, std::vector<std::int32_t>& ids) const;

  void add_windows(std::string_view text, std::vector<std::uint64_t>& tokens) const;

  HashedFeatureOptions options_;
  std::uint64_t start_ = 0;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/hashed_features.ipp>
#endif
