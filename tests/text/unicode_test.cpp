// Properties of code points in the tokenizer where the answer is not obvious.

#include <soma/text/unicode.hpp>
#include <soma/text/word_splitter.hpp>

#include "catch.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

using namespace soma::text;

namespace {

constexpr std::size_t block = 0x4000;  // code points of a stored hash

struct StoredWords {
  const char* options;  // letters as in unicode_tables.py
  std::uint64_t hashes[0x110000 / block];
};

constexpr StoredWords stored_words[] = {
#include "text/unicode_words.inc"
};

SplitOptions options_of(std::string_view letters) {
  const auto has = [&](char letter) { return letters.find(letter) != letters.npos; };
  SplitOptions options{.lowercase = has('l'), .chinese_chars = has('c'), .clean_text = has('t')};
  if (has('s') || has('S')) options.strip_accents = has('s');
  return options;
}

// FNV-1a.
void add(std::uint64_t& hash, std::string_view bytes) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
}

}  // namespace

TEST_CASE("every code point gives the words of the tokenizers package", "[unit][text][unicode]") {
  for (const auto& [letters, hashes] : stored_words) {
    const SplitRules rules(options_of(letters));
    WordSplitter splitter(rules);
    for (std::size_t number = 0; number < std::size(hashes); ++number) {
      // Most planes have no characters, so one of the options is enough there.
      const std::size_t first = number * block;
      const bool empty = first >= 0x30000 && (first < 0xE0000 || first >= 0xE4000);
      if (empty && &hashes != &stored_words[0].hashes) continue;
      std::uint64_t hash = 0xCBF29CE484222325;
      for (std::size_t i = 0; i < block; ++i) {
        const auto point = static_cast<char32_t>(first + i);
        if (point >= 0xD800 && point < 0xE000) continue;
        std::string letter, words;
        append_utf8(letter, point);
        const std::string text = "a" + letter + "\u0327\u0301b " + letter + "1";
        splitter.split(text, {0, text.size()}, [&](const Word& word) {
          words.append(words.empty() ? "" : "\n").append(word.text);
          return true;
        });
        const auto part = [&](int shift) { return static_cast<char>(point >> shift & 0xFF); };
        const char ending[] = {part(0), part(8), part(16), part(24)};
        add(hash, words);
        add(hash, {ending, sizeof ending});
      }
      INFO(letters << ", block " << number);
      CHECK(hash == hashes[number]);
    }
  }
}

TEST_CASE("classes are those that models were trained with", "[unit][text][unicode]") {
  // Those that other versions of Unicode have in other classes, and some that came after Unicode 8.
  for (const char32_t point : {0x061Du, 0x09FDu, 0x2E4Fu}) CHECK_FALSE(is_punctuation(point));
  for (const char32_t point : {0x08D4u, 0x0C3Cu, 0x1AC0u}) CHECK_FALSE(is_accent(point));
  CHECK_FALSE(is_removed_by_cleaning(0x08E2));
  CHECK(is_punctuation(0x166D));
  CHECK(is_punctuation(0x111C9));
  CHECK_FALSE(is_accent(0x111C9));
  CHECK(is_accent(0x1734));
  CHECK_FALSE(is_accent(0x1885));
  CHECK_FALSE(is_accent(0x1886));
  CHECK_FALSE(is_accent(0xA9BD));

  for (const char32_t point : {U'$', U'+', U'<', U'=', U'>', U'^', U'`', U'|', U'~', U'\u00BF'})
    CHECK(is_punctuation(point));
  for (const char32_t point : {U'a', U'0', U' ', U'\u20AC', U'\u00D7'})
    CHECK_FALSE(is_punctuation(point));

  for (const char32_t point :
       {0x09u, 0x0Au, 0x0Du, 0x20u, 0x85u, 0xA0u, 0x1680u, 0x2028u, 0x2029u, 0x3000u})
    CHECK(is_whitespace(point));
  for (const char32_t point : {0x00u, 0x08u, 0x180Eu, 0x200Bu, 0xFEFFu})
    CHECK_FALSE(is_whitespace(point));

  for (const char32_t point :
       {0x00u, 0x0Bu, 0x7Fu, 0x85u, 0xADu, 0x200Du, 0xE000u, 0xFFFDu, 0x10FFFDu})
    CHECK(is_removed_by_cleaning(point));
  // Not assigned, and so not removed; and spaces.
  for (const char32_t point : {0x09u, 0x0Au, 0x0Du, 0x20u, 0x0378u, 0x2028u, 0xFFFFu, 0x10FFFFu})
    CHECK_FALSE(is_removed_by_cleaning(point));

  for (const char32_t point :
       {0x3400u, 0x4E00u, 0x9FFFu, 0xF900u, 0x20000u, 0x2B81Fu, 0x2B920u, 0x2FA1Fu})
    CHECK(is_chinese(point));
  for (const char32_t point :
       {0x3007u, 0x3042u, 0x33FFu, 0x4DC0u, 0xA000u, 0xAC00u, 0x2B820u, 0x2B91Fu})
    CHECK_FALSE(is_chinese(point));
}

TEST_CASE("decomposition is whole, and lower case is one to one", "[unit][text][unicode]") {
  const auto parts_of = [](char32_t point) {
    char32_t parts[8];
    const std::size_t count = decompose(point, parts);
    return std::u32string(parts, count);
  };
  CHECK(parts_of(U'a') == U"a");
  CHECK(parts_of(0xE9) == U"e\u0301");
  CHECK(parts_of(0x1F82) == U"\u03B1\u0313\u0300\u0345");
  CHECK(parts_of(0xD55C) == U"\u1112\u1161\u11AB");
  CHECK(parts_of(0x378) == U"\u0378");
  CHECK(parts_of(0x10FFFF).size() == 1);
  CHECK(lower(0x1E9E) == 0xDF);
  CHECK(lower(0x03A3) == 0x03C3);
  CHECK(lower(0x212A) == U'k');
  CHECK(lower(0x10400) == 0x10428);
  CHECK(combining_class(0x0301) == 230);
  CHECK(combining_class(U'a') == 0);
}
