// Hashed features: known answers, which hold the mapping still, and what they are made of.

#include <soma/text/hashed_features.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;
using text::HashedFeatureOptions;
using text::HashedFeatures;
using text::TokenKind;

namespace {

using Ids = std::vector<std::int32_t>;

Ids features(std::string_view text, const HashedFeatureOptions& options) {
  Ids ids;
  HashedFeatures(options).add(text, ids);
  return ids;
}

}  // namespace

TEST_CASE("hashed features have known answers", "[unit]") {
  // Answers of version 1, computed by tests/text/hashed_features.py, which shares no code with the
  // header.
#include "text/hashed_features.inc"
  for (const Known& known : known_answers) {
    INFO(known.text);
    CHECK(features(known.text, known.options) == known.ids);
  }
}

TEST_CASE("features are tokens, their runs and parts of words", "[unit]") {
  HashedFeatureOptions single{.ngrams = 1};
  const Ids words = features("Good film , bad END", single);
  CHECK(words.size() == 5);
  CHECK(words == features("  good\tFILM,bad\nend ", single));
  CHECK(features("a b c", single) == [&] {
    Ids all;
    for (const char* word : {"a", "b", "c"}) {
      const Ids one = features(word, single);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }());
  CHECK(features("don't", single).size() == 3);
  CHECK(features("don't", {.tokens = TokenKind::words, .ngrams = 1}).size() == 1);
  CHECK(features("caf\xc3\xa9", single).size() == 1);

  const Ids pairs = features("a b c d", {.ngrams = 3});
  CHECK(pairs.size() == 4 + 3 + 2);
  // A run is one of its order: "b a" is another feature than "a b".
  CHECK(features("a b", {})[2] != features("b a", {})[2]);

  const Ids parts = features("film", {.ngrams = 1, .parts = 5});
  CHECK(parts.size() == 2 + 1);                                  // <film film> and the word
  CHECK(features("it", {.ngrams = 1, .parts = 5}).size() == 1);  // <it> is shorter
  CHECK(features("abc", {.ngrams = 1, .parts = 5}).size() == 2);
  // Code points count, not bytes: <\u00e9t\u00e9> has five.
  CHECK(features("\xc3\xa9t\xc3\xa9", {.ngrams = 1, .parts = 5}).size() == 2);

  const HashedFeatureOptions windows{.tokens = TokenKind::characters, .window = 3, .ngrams = 1};
  CHECK(features("abcd", windows).size() == 2);
  CHECK(features("ab", windows).size() == 1);
  CHECK(features("a b", windows) != features("ab ", windows));
  CHECK(features("\xc3\xa9t\xc3\xa9", windows).size() == 1);
}

TEST_CASE("a text without tokens has one feature, and rows are in range", "[unit]") {
  CHECK(features("", {}).size() == 1);
  CHECK(features(" \t\r\n", {}) == features("", {}));
  CHECK(features("", {.tokens = TokenKind::characters}) == features("", {}));
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  for (const TokenKind kind :
       {TokenKind::words, TokenKind::words_and_punctuation, TokenKind::characters})
    for (const int bits : {10, 26}) {
      const Ids ids = features(all, {.tokens = kind, .ngrams = 4, .parts = 3, .bits = bits});
      CHECK(std::all_of(ids.begin(), ids.end(),
                        [&](std::int32_t id) { return id >= 0 && id < 1 << bits; }));
    }
  // Seeds give other rows.
  CHECK(features("a b", {.seed = 1}) != features("a b", {.seed = 2}));
}

TEST_CASE("features fill their rows evenly", "[unit]") {
  std::set<std::int32_t> rows;
  Ids ids;
  const HashedFeatures hashed({.ngrams = 1, .bits = 16});
  for (int i = 0; i < 65536; ++i) hashed.add("word" + std::to_string(i), ids);
  rows.insert(ids.begin(), ids.end());
  // n draws from n rows hit a share of 1 - 1/e, with a standard deviation of 0.31 sqrt(n).
  const double expected = 65536 * (1 - std::exp(-1.0));
  CHECK(std::abs(static_cast<double>(rows.size()) - expected) < 6 * 0.31 * 256);
}

TEST_CASE("options of features out of range are refused", "[unit]") {
  const auto id_with = [](const HashedFeatureOptions& options) {
    return id_of([&] { HashedFeatures made(options); });
  };
  CHECK(id_with({.bits = 9}) == "text.features");
  CHECK(id_with({.bits = 27}) == "text.features");
  CHECK(id_with({.bits = -1}) == "text.features");
  CHECK(id_with({.ngrams = 0}) == "text.features");
  CHECK(id_with({.ngrams = 9}) == "text.features");
  CHECK(id_with({.parts = 1}) == "text.features");
  CHECK(id_with({.window = 0}) == "text.features");
  CHECK(id_with({.tokens = static_cast<TokenKind>(7)}) == "text.features");
}
