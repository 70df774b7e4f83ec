// Byte-level tokenizers beside the package tokenizers (byte_tokenizer_cases.py).

#include <soma/text/byte_pairs/byte_tokenizer_json.hpp>
#include <soma/text/byte_pairs/text_stream.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

using namespace soma;
using namespace soma::text;
using soma_test::contains;
using soma_test::message_of;

namespace {

struct Kind {
  std::string_view name, stages, model;
};
struct Case {
  std::string_view text;
  std::uint64_t hashes[7];  // hashes of the ids, in the order of all_kinds
};
#include "byte_tokenizer_cases.inc"

// The content of a kind's tokenizer.json.
nlohmann::json content_of(const Kind& kind) {
  auto content = nlohmann::json::parse(kind.stages);
  content["model"].update(nlohmann::json::parse(kind.model));
  return content;
}

ByteTokenizer tokenizer_of(const nlohmann::json& content) {
  return ByteTokenizer(read_byte_tokenizer_json(content.dump()));
}
ByteTokenizer tokenizer_of(const Kind& kind) { return tokenizer_of(content_of(kind)); }

std::uint64_t hash_of(const std::vector<std::int32_t>& ids) {
  std::uint64_t state = 0xCBF29CE484222325u;
  for (const std::int32_t id : ids)
    for (unsigned shift = 0; shift < 32; shift += 8)
      state = (state ^ (static_cast<std::uint32_t>(id) >> shift & 0xFF)) * 0x100000001B3u;
  return state;
}

// Characters of every kind, without marks that compose, for the way back.
std::string random_text(std::mt19937_64& draws) {
  static const std::vector<std::string> parts{"a",
                                              "B",
                                              " ",
                                              "  ",
                                              "\n",
                                              "\r\n",
                                              "\t",
                                              "'s",
                                              "don't",
                                              "12",
                                              "3",
                                              ".",
                                              "!?",
                                              "\xC3\xA9",
                                              "\xE6\x97\xA5",
                                              "\xF0\x9F\x99\x82",
                                              "\xC2\xA0",
                                              "\xE2\x80\x8B",
                                              "the",
                                              "ing"};
  std::string text;
  for (std::size_t count = draws() % 30; count != 0; --count) text += parts[draws() % parts.size()];
  return text;
}

// The pairs of a word one by one, by looking at all of them each time.
std::vector<std::int32_t> joined(const std::vector<PairMerge>& merges,
                                 std::vector<std::int32_t> word) {
  while (true) {
    std::size_t best = merges.size(), place = 0;
    for (std::size_t i = 0; i + 1 < word.size(); ++i)
      for (std::size_t rank = 0; rank < best; ++rank)
        if (merges[rank].left == word[i] && merges[rank].right == word[i + 1]) {
          best = rank;
          place = i;
        }
    if (best == merges.size()) return word;
    word[place] = merges[best].result;
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

}  // namespace

TEST_CASE("byte tokenizers give the ids of the package tokenizers", "[unit]") {
  std::size_t number = 0;
  for (const Kind* kind : all_kinds) {
    const ByteTokenizer tokenizer = tokenizer_of(*kind);
    for (const Case& c : cases) {
      INFO(kind->name << ": " << c.text);
      CHECK(hash_of(tokenizer.encode(c.text).ids) == c.hashes[number]);
    }
    ++number;
  }
}

TEST_CASE("valid text comes back, whole and as a stream", "[unit]") {
  std::mt19937_64 draws(5);
  for (const Kind* kind : all_kinds) {
    const ByteTokenizer tokenizer = tokenizer_of(*kind);
    for (int i = 0; i < 200; ++i) {
      std::string text = random_text(draws);
      // Which of the mark and the text's own space the way back takes away is not in the ids.
      if (tokenizer.strips_first_space() && text.starts_with(' ')) continue;
      INFO(kind->name << ": " << text);
      const Encoding found = tokenizer.encode(text, {.special_tokens = false, .offsets = true});
      CHECK(tokenizer.decode(found.ids) == text);
      TextStream stream(tokenizer);
      std::string parts;
      for (const std::int32_t id : found.ids) {
        const std::string part = stream.add(id);
        CHECK(is_utf8(part));
        parts += part;
      }
      CHECK(parts + stream.finish() == text);
      // Offsets follow each other and cover the text.
      std::size_t at = 0;
      for (const Span span : found.offsets) {
        CHECK((span.begin <= at && span.end >= at));
        at = (std::max)(at, span.end);
      }
      CHECK(at == text.size());
    }
  }
}

TEST_CASE("a word's pairs are joined in the order of ranks, in short words and in long ones",
          "[unit]") {
  std::mt19937_64 draws(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<PairMerge> merges;
    const std::int32_t letters = 3;
    for (std::int32_t id = letters; id < 40; ++id) {
      const auto part = [&] {
        return static_cast<std::int32_t>(draws() % static_cast<std::uint64_t>(id));
      };
      merges.push_back({part(), part(), id});
    }
    // The reference looks for the first of two merges of one pair, and the last counts.
    std::vector<PairMerge> distinct;
    for (const PairMerge& merge : merges) {
      const auto same = [&](const PairMerge& other) {
        return other.left == merge.left && other.right == merge.right;
      };
      if (std::none_of(distinct.begin(), distinct.end(), same)) distinct.push_back(merge);
    }
    const PairMerges pairs(distinct);
    for (const std::size_t length : {1u, 2u, 5u, 31u, 32u, 33u, 34u, 200u}) {
      std::vector<std::int32_t> ids;
      std::vector<PairSymbol> word;
      for (std::size_t i = 0; i < length; ++i) {
        ids.push_back(static_cast<std::int32_t>(draws() % 3));
        word.push_back({ids.back(), 1});
      }
      pairs.join(word);
      std::vector<std::int32_t> found;
      std::size_t bytes = 0;
      for (const PairSymbol& symbol : word) {
        found.push_back(symbol.id);
        bytes += symbol.bytes;
      }
      CHECK(found == joined(distinct, ids));
      CHECK(bytes == length);
    }
  }
}

TEST_CASE("special tokens stand around a text, and the cut leaves room for them", "[unit]") {
  const ByteTokenizer tokenizer = tokenizer_of(llama3);
  const std::int32_t around = tokenizer.before().front();
  CHECK(tokenizer.is_special(around));
  const auto whole = tokenizer.encode("a b c d e").ids;
  CHECK((whole.front() == around && whole.back() == around && whole.size() > 4));
  const auto cut = tokenizer.encode("a b c d e", {.max_length = 4}).ids;
  CHECK(cut.size() == 4);
  CHECK((cut[0] == whole[0] && cut[1] == whole[1] && cut[2] == whole[2] && cut[3] == around));
  CHECK(tokenizer.encode("", {.max_length = 2}).ids.size() == 2);
  CHECK_THROWS_WITH(tokenizer.encode("a", {.max_length = 1}), contains("text.max_length"));
  std::vector<std::int32_t> plain;
  tokenizer.append_ids("a b c d e", plain);
  CHECK(std::equal(plain.begin(), plain.end(), whole.begin() + 1, whole.end() - 1));
}

TEST_CASE("bytes that are no UTF-8 are read as U+FFFD and counted", "[unit]") {
  const ByteTokenizer tokenizer = tokenizer_of(gpt2);
  const Encoding found = tokenizer.encode("a\xFF\xE2\x82z", {.offsets = true});
  CHECK(found.replaced == 2);
  CHECK(found.ids == tokenizer.encode("a\xEF\xBF\xBD\xEF\xBF\xBDz").ids);
  CHECK(found.offsets.back() == Span{4, 5});
  // Half a character, as ids can spell it.
  const auto character = tokenizer.encode("\xF0\xAA\x9B\x96").ids;
  REQUIRE(character.size() > 1);
  TextStream stream(tokenizer);
  std::string parts;
  for (std::size_t i = 0; i + 1 < character.size(); ++i) parts += stream.add(character[i]);
  CHECK(parts.empty());
  CHECK(stream.finish() == "\xEF\xBF\xBD");
}

TEST_CASE("a text of 1 MB without a space is tokenized in its time", "[unit]") {
  // Where pairs were looked through from the start for each, this would take hours.
  const ByteTokenizer tokenizer = tokenizer_of(gpt2);
  std::mt19937_64 draws(1);
  std::string word(1u << 20, 'a');
  for (char& letter : word) letter = static_cast<char>('a' + draws() % 26);
  const auto ids = tokenizer.encode(word).ids;
  CHECK(tokenizer.decode(ids) == word);
  CHECK(ids.size() < word.size());
}

TEST_CASE("bytes without a piece are left out, as by the package", "[unit]") {
  // Ids of tokenizers 0.23 with this vocabulary.
  const ByteTokenizer tokenizer(
      {.pieces = {"a", "b", "ab", "\x80", "\x80\x80"}, .merges = {{0, 1, 2}, {3, 3, 4}}});
  using Ids = std::vector<std::int32_t>;
  CHECK(tokenizer.encode("ab").ids == Ids{2});
  CHECK(tokenizer
            .encode("a\x04"
                    "b")
            .ids == Ids{0, 1});
  CHECK(tokenizer.encode("\xF1\x80\x80\x80").ids == Ids{4, 3});
  CHECK(tokenizer.encode("acb").ids == Ids{2});
  CHECK(tokenizer.encode("cab").ids == Ids{2});
  CHECK(tokenizer.encode("c").ids.empty());
  // Offsets cover what was left out, so that no later token moves.
  CHECK(tokenizer.encode("c ab", {.offsets = true}).offsets == std::vector{Span{1, 4}});
}

TEST_CASE("another kind of tokenizer is refused by quoting it", "[unit]") {
  const auto refusal = [](const nlohmann::json& content) {
    return message_of([&] { tokenizer_of(content); });
  };
  auto content = content_of(qwen2);
  content["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\p{Lu}+";
  CHECK_THAT(refusal(content), contains("\\p{Lu}+") && contains("[text.tokenizer_file]"));
  content = content_of(gpt2);
  content["pre_tokenizer"]["add_prefix_space"] = true;
  CHECK_THAT(refusal(content), contains("ByteLevel"));
  content = content_of(gpt2);
  content["model"]["type"] = "Unigram";
  CHECK_THAT(refusal(content), contains("Unigram"));
  content = content_of(gpt2);
  content["model"]["dropout"] = 0.1;
  CHECK_THAT(refusal(content), contains("dropout"));
  content = content_of(gpt2);
  content["model"]["merges"].push_back("no such");
  CHECK_THAT(refusal(content), contains("no such"));
  content = content_of(gpt2);
  content["model"]["vocab"]["huge"] = std::uint64_t{1} << 40;
  CHECK_THAT(refusal(content), contains("huge"));
  content = content_of(gpt2);
  content["added_tokens"][0]["single_word"] = true;
  CHECK_THAT(refusal(content), contains("single_word"));
  content = content_of(gpt2);
  content["normalizer"] = {{"type", "Lowercase"}};
  CHECK_THAT(refusal(content), contains("Lowercase"));
  content = content_of(sentencepiece);
  content["model"]["byte_fallback"] = false;
  CHECK_THAT(refusal(content), contains("byte_fallback"));
  CHECK_THAT(message_of([&] { tokenizer_of(gpt2).decode(std::vector<std::int32_t>{-1}); }),
             contains("text.token_id"));
}

TEST_CASE("tokenizer_config.json names the tokens around texts", "[unit]") {
  auto parts = read_byte_tokenizer_json(content_of(gpt2).dump());
  read_byte_tokenizer_config(
      R"({"bos_token":"<|end|>","eos_token":{"content":"<|end|>"},"add_bos_token":true,
          "added_tokens_decoder":{"900":{"content":"<new>","special":true,"normalized":false}}})",
      parts);
  const ByteTokenizer tokenizer(parts);
  CHECK(tokenizer.start_id() == tokenizer.end_id());
  CHECK(tokenizer.encode("a").ids.front() == tokenizer.start_id());
  CHECK(tokenizer.encode("a<new>").ids.back() == 900);
  CHECK(tokenizer.id_count() == 901);
  CHECK_THAT(message_of([&] { read_byte_tokenizer_config(R"({"bos_token":"<none>"})", parts); }),
             contains("<none>"));
  CHECK_THAT(message_of([&] { read_byte_tokenizer_config(R"({"add_prefix_space":true})", parts); }),
             contains("add_prefix_space"));
}

TEST_CASE("vocab.json with merges.txt is GPT-2's tokenizer", "[unit]") {
  const auto model = nlohmann::json::parse(gpt2.model);
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : model["merges"])
    merges +=
        (merge.is_string() ? merge.get<std::string>()
                           : merge[0].get<std::string>() + " " + merge[1].get<std::string>()) +
        "\r\n";
  const ByteTokenizer from_lists(read_vocab_and_merges(model["vocab"].dump(), merges));
  auto content = content_of(gpt2);
  content["added_tokens"] = nlohmann::json::array();
  const ByteTokenizer whole = tokenizer_of(content);
  for (const Case& c : cases) CHECK(from_lists.encode(c.text).ids == whole.encode(c.text).ids);
}
