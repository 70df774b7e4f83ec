// The tokenizer, by hand: pieces, options, special tokens, lengths, offsets, many texts at once.

#include <soma/soma.hpp>
#include <soma/text/tokenizer.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <string>
#include <string_view>
#include <vector>

using namespace soma::text;
using namespace soma_test;
using Ids = std::vector<std::int32_t>;

namespace {

// Ids:            0      1      2      3      4       5    6     7     8      9      10  11  12
constexpr auto* content =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nun\n##aff\n##able\n##a\n,\n!\n##s\n"
    // 13   14      15       16   17   18      19   20
    "cafe\ncaf\xC3\xA9\n\xE6\xBC\xA2\n'\nt\nHello\nhello\ni\n";

Tokenizer tokenizer(const TokenizerOptions& options = {}) {
  return Tokenizer(Vocabulary::from_text(content), options);
}
Ids ids(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  options.special_tokens = false;
  return tokenizer.encode(text, options).ids;
}

}  // namespace

TEST_CASE("words are cut into the longest pieces from their start", "[unit][text][tokenizer]") {
  const Tokenizer uncased = tokenizer();
  CHECK(ids(uncased, "unaffable") == Ids{6, 7, 8});
  CHECK(ids(uncased, "una") == Ids{6, 9});
  CHECK(ids(uncased, "aff") == Ids{1});
  // The beginning is known, the rest is not: the word is one unknown token.
  CHECK(ids(uncased, "unaffx the") == Ids{1, 5});
  CHECK(ids(uncased, "The,the!") == Ids{5, 10, 5, 11});
  CHECK(ids(uncased, " \t\n") == Ids{});
  CHECK(ids(uncased, "") == Ids{});
  CHECK(ids(uncased, "i't") == Ids{20, 16, 17});
}

TEST_CASE("options of splitting do what they say", "[unit][text][tokenizer]") {
  const Tokenizer uncased = tokenizer();
  CHECK(ids(uncased, "HELLO Caf\xC3\x89 caf\x65\xCC\x81") == Ids{19, 13, 13});
  CHECK(ids(uncased, "the\xE6\xBC\xA2the") == Ids{5, 15, 5});
  CHECK(ids(uncased, "t\x01he th\xE2\x80\x8B\x65") == Ids{5, 5});
  CHECK(ids(uncased, "the\xC2\xA0the\xE3\x80\x80the") == Ids{5, 5, 5});
  CHECK(ids(uncased, "\xC4\xB0") == Ids{20});  // I with a dot loses it as an accent

  const Tokenizer cased = tokenizer({.split = {.lowercase = false}});
  CHECK(ids(cased, "Hello hello HELLO caf\xC3\xA9") == Ids{18, 19, 1, 14});
  const Tokenizer accents = tokenizer({.split = {.strip_accents = false}});
  CHECK(ids(accents, "CAF\xC3\x89 \xC4\xB0") == Ids{14, 1});  // and here it keeps it
  const Tokenizer stripped = tokenizer({.split = {.lowercase = false, .strip_accents = true}});
  CHECK(ids(stripped, "Hello caf\xC3\xA9") == Ids{18, 13});
  const Tokenizer joined = tokenizer({.split = {.chinese_chars = false}});
  CHECK(ids(joined, "the\xE6\xBC\xA2 \xE6\xBC\xA2") == Ids{1, 15});
  const Tokenizer raw = tokenizer({.split = {.clean_text = false}});
  CHECK(ids(raw, "t\x01he the\x0Bthe") == Ids{1, 5, 5});
  const Tokenizer brief = tokenizer({.split = {.max_word_chars = 8}});
  CHECK(ids(brief, "unaffabl unaffable hello") == Ids{1, 1, 19});
  CHECK(ids(tokenizer({.split = {.max_word_chars = 9}}), "unaffable") == Ids{6, 7, 8});
}

TEST_CASE("special tokens in a text are taken as such, unless that is off",
          "[unit][text][tokenizer]") {
  const Tokenizer usual = tokenizer();
  CHECK(ids(usual, "the[MASK]the [SEP]") == Ids{5, 4, 5, 3});
  CHECK(ids(usual, "[mask]") == Ids{1, 1, 1});
  CHECK(ids(usual, "[SEP[SEP]") == Ids{1, 1, 3});
  const Tokenizer plain = tokenizer({.special_in_text = false});
  CHECK(ids(plain, "the [SEP]") == Ids{5, 1, 1, 1});
  CHECK(ids(tokenizer({.more_special = {"##s"}}), "the##s") == Ids{5, 12});
}

TEST_CASE("of special tokens that begin alike the longest is taken", "[unit][text][tokenizer]") {
  const Tokenizer twins(Vocabulary::from_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[SEP]]\n"),
                        {.more_special = {"[SEP]]"}});
  CHECK(ids(twins, "[SEP]") == Ids{3});
  CHECK(ids(twins, "[SEP]][SEP]") == Ids{4, 3});
}

TEST_CASE("marks that are kept stand in canonical order", "[unit][text][tokenizer]") {
  // Class 224, class 9, and an accent of class 230, which is taken out.
  const std::string text = "a\xE3\x80\xAE\xE1\xAD\x84\xCC\x81";
  const SplitRules rules{SplitOptions{}};
  WordSplitter splitter(rules, true);
  std::vector<std::string> words;
  splitter.split(text, {0, text.size()}, [&](const Word& word) {
    words.emplace_back(word.text);
    CHECK(word.source == Span{0, 7});
    CHECK(word.sources[0] == Span{0, 1});
    CHECK(word.sources[1] == Span{1, 4});  // the first mark, from where the first was
    CHECK(word.sources[4] == Span{4, 7});
    return true;
  });
  CHECK(words == std::vector<std::string>{"a\xE1\xAD\x84\xE3\x80\xAE"});
}

TEST_CASE("texts and pairs get their special tokens, types and places", "[unit][text][tokenizer]") {
  const Tokenizer uncased = tokenizer();
  const Encoding one = uncased.encode("The unaffable\xFF!", {.offsets = true});
  CHECK(one.ids == Ids{2, 5, 6, 7, 8, 11, 3});
  CHECK(one.types == Ids{0, 0, 0, 0, 0, 0, 0});
  CHECK(one.offsets ==
        std::vector<Span>{{0, 0}, {0, 3}, {4, 6}, {6, 9}, {9, 13}, {14, 15}, {0, 0}});
  CHECK(one.replaced == 1);
  CHECK(uncased.encode("the").offsets.empty());

  const Encoding two = uncased.encode("the", "hello !", {.offsets = true});
  CHECK(two.ids == Ids{2, 5, 3, 19, 11, 3});
  CHECK(two.types == Ids{0, 0, 0, 1, 1, 1});
  CHECK(two.offsets == std::vector<Span>{{0, 0}, {0, 3}, {0, 0}, {0, 5}, {6, 7}, {0, 0}});
  const Encoding bare = uncased.encode("the", "hello", {.special_tokens = false});
  CHECK(bare.ids == Ids{5, 19});
  CHECK(bare.types == Ids{0, 1});
  // Where an accent was taken out, and where one character became two.
  CHECK(uncased.encode("caf\x65\xCC\x81s", {.offsets = true}).offsets[1] == Span{0, 4});
  CHECK(uncased.encode("caf\xC3\xA9s", {.offsets = true}).offsets[1] == Span{0, 5});
}

TEST_CASE("long texts are cut, the longer of two first", "[unit][text][tokenizer]") {
  const Tokenizer uncased = tokenizer();
  CHECK(uncased.encode("the the unaffable", {.max_length = 5}).ids == Ids{2, 5, 5, 6, 3});
  CHECK(uncased.encode("the", {.max_length = 2}).ids == Ids{2, 3});
  CHECK(uncased.encode("the the", {.max_length = 1, .special_tokens = false}).ids == Ids{5});
  const auto lengths = [&](std::size_t first, std::size_t second, std::size_t room) {
    std::string a, b;
    for (std::size_t i = 0; i < first; ++i) a += "the ";
    for (std::size_t i = 0; i < second; ++i) b += "! ";
    const Encoding found = uncased.encode(a, b, {.max_length = room, .special_tokens = false});
    std::pair<std::size_t, std::size_t> counts{0, 0};
    for (const std::int32_t id : found.ids) ++(id == 5 ? counts.first : counts.second);
    return counts;
  };
  using Lengths = std::pair<std::size_t, std::size_t>;
  CHECK(lengths(3, 4, 7) == Lengths{3, 4});
  CHECK(lengths(2, 9, 7) == Lengths{2, 5});
  CHECK(lengths(9, 2, 7) == Lengths{5, 2});
  CHECK(lengths(9, 9, 7) == Lengths{3, 4});
  CHECK(lengths(9, 8, 7) == Lengths{4, 3});
  CHECK(lengths(9, 5, 0) == Lengths{0, 0});
  CHECK(message_of([&] { uncased.encode("the", {.max_length = 1}); }) ==
        "Tokenizer: max_length is 1, wanted at least the 2 special tokens [text.max_length]");
  CHECK(id_of([&] { uncased.encode("the", "the", {.max_length = 2}); }) == "text.max_length");
}

TEST_CASE("what a vocabulary has to have", "[unit][text][tokenizer]") {
  const auto refused = [](const char* pieces, TokenizerOptions options = {}) {
    return message_of([&] { Tokenizer(Vocabulary::from_text(pieces), options); });
  };
  CHECK(refused("[PAD]\n[CLS]\n[SEP]\n") ==
        "Tokenizer: unknown is \"[UNK]\", wanted a piece of the vocabulary [text.special_token]");
  CHECK(refused("[UNK]\n[CLS]\n[SEP]\n").find("padding is \"[PAD]\"") != std::string::npos);
  CHECK(refused("[UNK]\n[PAD]\n[SEP]\n").find("start is \"[CLS]\"") != std::string::npos);
  CHECK(refused("[UNK]\n[PAD]\n[CLS]\n").find("separator is \"[SEP]\"") != std::string::npos);
  CHECK(refused(content, {.padding = ""}).find("padding is \"\"") != std::string::npos);
  CHECK(refused(content, {.more_special = {"[X]"}}).find("more_special") != std::string::npos);
  const Tokenizer without_mask(Vocabulary::from_text("[UNK]\n[PAD]\n[CLS]\n[SEP]\n"));
  CHECK(without_mask.mask_id() == Vocabulary::absent);
  CHECK(tokenizer().mask_id() == 4);
  CHECK(tokenizer().padding_id() == 0);
}

TEST_CASE("ids become text again", "[unit][text][tokenizer]") {
  const Tokenizer uncased = tokenizer();
  CHECK(uncased.decode(Ids{2, 5, 6, 7, 8, 10, 19, 11, 3}) == "the unaffable, hello!");
  CHECK(uncased.decode(Ids{2, 5, 11, 3}, {.skip_special_tokens = false, .clean_up = false}) ==
        "[CLS] the ! [SEP]");
  CHECK(uncased.decode(Ids{7, 5}) == "##aff the");  // the first stays as it is
  CHECK(uncased.decode(Ids{}).empty());
  CHECK(id_of([&] { uncased.decode(Ids{21}); }) == "text.token_id");
}

TEST_CASE("many texts at once are the same as one after another, on any number of threads",
          "[unit][text][tokenizer]") {
  const Tokenizer uncased = tokenizer();
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 300; ++i) {
    std::string text;
    for (std::size_t k = 0; k < i % 37; ++k)
      text += k % 5 == 4 ? "caf\xC3\xA9 \xFF" : k % 3 == 0 ? "unaffable, " : "the!";
    texts.push_back(text);
  }
  TokenizedTexts wanted{.ids = {}, .offsets = {0}};
  for (const std::string& text : texts) {
    wanted.replaced += uncased.encode_ids(text, 20, wanted.ids);
    wanted.offsets.push_back(wanted.ids.size());
  }
  CHECK(wanted.replaced > 100);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  for (const int threads : {1, 2, 3, 7}) {
    auto context = soma::make_context({.threads = threads});
    const TokenizedTexts found = uncased.encode_all<std::string_view>(context, views, 20);
    CHECK(found.ids == wanted.ids);
    CHECK(found.offsets == wanted.offsets);
    CHECK(found.replaced == wanted.replaced);
    CHECK(uncased.encode_all<std::string>(context, texts, 20).ids == wanted.ids);
    CHECK(uncased.encode_all<std::string>(context, {}).offsets == std::vector<std::size_t>{0});
    CHECK(id_of([&] { uncased.encode_all<std::string>(context, texts, 1); }) == "text.max_length");
  }
}
