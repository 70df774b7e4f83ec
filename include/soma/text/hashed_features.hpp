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

namespace soma::text {

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
  explicit HashedFeatures(const HashedFeatureOptions& options = {}) : options_(options) {
    const auto check = [](std::string_view name, std::uint64_t value, std::uint64_t least,
                          std::uint64_t most) {
      if (value < least || value > most)
        fail(error_id::text_features, "HashedFeatures", name, std::to_string(value),
             std::to_string(least) + " to " + std::to_string(most));
    };
    check("tokens", static_cast<std::uint64_t>(options.tokens), 0, 2);
    check("window", options.window, 1, 64);
    check("ngrams", options.ngrams, 1, 8);
    if (options.parts != 0) check("parts", options.parts, 2, 64);
    check("bits", static_cast<std::uint64_t>(options.bits < 0 ? 0 : options.bits), 10, 26);
    start_ = mixed(options.seed + first);
  }

  const HashedFeatureOptions& options() const { return options_; }
  std::size_t rows() const { return std::size_t{1} << options_.bits; }
  void describe(soma::Record& record) const {
    record.set("features.version", version);
    record.set("features.tokens", to_string(options_.tokens));
    record.set("features.window", options_.window);
    record.set("features.ngrams", options_.ngrams);
    record.set("features.parts", options_.parts);
    record.set("features.bits", options_.bits);
    record.set("features.seed", options_.seed);
  }

  // Appends the features of a text, in a fixed order, one for each occurrence; a text without
  // tokens has one special feature. `tokens` is scratch memory that a caller with many texts keeps.
  // A few nanoseconds a byte.
  void add(std::string_view text, std::vector<std::int32_t>& ids,
           std::vector<std::uint64_t>& tokens) const {
    tokens.clear();
    options_.tokens == TokenKind::characters ? add_windows(text, tokens)
                                             : add_words(text, tokens, ids);
    if (tokens.empty()) tokens.push_back(start_);
    for (const std::uint64_t token : tokens) ids.push_back(row_of(token));
    for (std::size_t size = 2; size <= options_.ngrams; ++size)
      for (std::size_t i = 0; i + size <= tokens.size(); ++i) {
        std::uint64_t hash = mixed(start_ + size);
        for (std::size_t k = i; k < i + size; ++k) hash = mixed(hash * golden + tokens[k]);
        ids.push_back(row_of(hash));
      }
  }
  void add(std::string_view text, std::vector<std::int32_t>& ids) const {
    std::vector<std::uint64_t> tokens;
    add(text, ids, tokens);
  }

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
  std::int32_t row_of(std::uint64_t hash) const {
    return static_cast<std::int32_t>(hash >> (64 - options_.bits));
  }

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
                 std::vector<std::int32_t>& ids) const {
    const auto* at = reinterpret_cast<const unsigned char*>(text.data());
    const unsigned char* const end = at + text.size();
    const bool marks = options_.tokens == TokenKind::words_and_punctuation;
    while (at != end) {
      if (is_space(*at)) {
        ++at;
        continue;
      }
      const unsigned char* const begin = at;
      std::uint64_t hash = start_;
      if (marks && class_of(*at) == Class::mark) {
        hash = added(hash, *at++);
      } else {
        for (; at != end && (marks ? class_of(*at) == Class::word : !is_space(*at)); ++at)
          hash = added(hash, *at);
        if (options_.parts != 0)
          add_parts(std::string_view(text.data() + (begin - start_of(text)),
                                     static_cast<std::size_t>(at - begin)),
                    ids);
      }
      tokens.push_back(mixed(hash));
    }
  }
  static const unsigned char* start_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  }

  // Adds runs of `parts` code points of "<word>".
  void add_parts(std::string_view word, std::vector<std::int32_t>& ids) const {
    // Places where code points begin: "<" is at place 0, ">" at the last but one.
    const std::size_t bytes = word.size() + 2;
    const auto byte_at = [&](std::size_t i) {
      return i == 0           ? static_cast<unsigned char>('<')
             : i + 1 == bytes ? static_cast<unsigned char>('>')
                              : static_cast<unsigned char>(word[i - 1]);
    };
    const auto next = [&](std::size_t i) {
      do ++i;
      while (i < bytes && continues(byte_at(i)));
      return i;
    };
    std::size_t end = 0, points = 0;
    for (; end < bytes && points < options_.parts; ++points) end = next(end);
    if (points < options_.parts) return;
    for (std::size_t begin = 0;; begin = next(begin), end = next(end)) {
      std::uint64_t hash = start_ ^ golden;  // apart from the words
      for (std::size_t i = begin; i < end; ++i) hash = added(hash, byte_at(i));
      ids.push_back(row_of(mixed(hash)));
      if (end == bytes) break;
    }
  }

  void add_windows(std::string_view text, std::vector<std::uint64_t>& tokens) const {
    if (text.empty()) return;
    const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const auto next = [&](std::size_t i) {
      do ++i;
      while (i < text.size() && continues(byte_at(i)));
      return i;
    };
    std::size_t end = 0;
    for (std::size_t points = 0; end < text.size() && points < options_.window; ++points)
      end = next(end);
    for (std::size_t begin = 0;; begin = next(begin), end = next(end)) {
      std::uint64_t hash = start_;
      for (std::size_t i = begin; i < end; ++i) hash = added(hash, byte_at(i));
      tokens.push_back(mixed(hash));
      if (end == text.size()) break;
    }
  }

  HashedFeatureOptions options_;
  std::uint64_t start_ = 0;
};

}  // namespace soma::text
