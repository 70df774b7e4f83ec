// Vocabularies learnt from text: beside a plain program that counts everything again for each
// piece, and by hand.

#include <soma/text/train_vocabulary.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

using namespace soma::text;
using namespace soma_test;

namespace {

std::vector<std::string> pieces_of(const Vocabulary& vocabulary) {
  std::vector<std::string> pieces;
  for (std::size_t i = 0; i < vocabulary.size(); ++i)
    pieces.emplace_back(vocabulary.piece(static_cast<std::int32_t>(i)));
  return pieces;
}

// Texts of words that share their parts, some often and some seldom.
std::vector<std::string> sample_texts() {
  const std::vector<std::string> starts{"un", "re", "over", "", "in", "b"},
      ends{"ing", "ed", "s", "", "able", "ness"};
  const std::vector<std::string> middles{"play", "work", "see",  "aa",
                                         "aaa",  "help", "kind", "abab"};
  std::vector<std::string> texts;
  std::size_t state = 1;
  for (int i = 0; i < 400; ++i) {
    std::string text;
    for (int k = 0; k < 5; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const std::size_t r = state >> 33;
      // The smaller of two draws: some words are much more frequent than others.
      const std::size_t m = std::min(r / 7 % middles.size(), r / 61 % middles.size());
      text += starts[r % starts.size()] + middles[m] + ends[r / 509 % ends.size()] + " ";
    }
    texts.push_back(text);
  }
  return texts;
}

// The pieces that are learnt, in their order. Counts all words again after each merge.
std::vector<std::string> learn_plainly(const std::vector<std::string>& texts, std::size_t most,
                                       std::size_t min_count) {
  std::vector<std::vector<std::string>> words;
  for (const std::string& text : texts)
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      std::vector<std::string> word;
      for (std::size_t i = at; i < end; ++i)
        word.push_back((i == at ? "" : "##") + text.substr(i, 1));
      if (!word.empty()) words.push_back(word);
      at = end + 1;
    }
  double characters = 0;
  for (const auto& word : words) characters += static_cast<double>(word.size());
  std::vector<std::string> learnt;
  while (learnt.size() < most) {
    std::map<std::string, double> pieces;
    std::map<std::pair<std::string, std::string>, double> pairs;
    for (const auto& word : words)
      for (std::size_t i = 0; i < word.size(); ++i) {
        ++pieces[word[i]];
        if (i > 0) ++pairs[{word[i - 1], word[i]}];
      }
    // The map is in the order of bytes, so the first of equal scores is the one that wins.
    double best = -std::numeric_limits<double>::infinity();
    std::pair<std::string, std::string> which;
    for (const auto& [pair, count] : pairs) {
      const double expected = pieces[pair.first] * pieces[pair.second];
      const double score = count * std::log(count * characters / expected);
      if (count < static_cast<double>(min_count) || score <= best) continue;
      best = score;
      which = pair;
    }
    if (which.first.empty()) break;
    const std::string merged = which.first + which.second.substr(2);
    if (std::find(learnt.begin(), learnt.end(), merged) == learnt.end()) learnt.push_back(merged);
    for (auto& word : words) {
      std::vector<std::string> after;
      for (std::size_t i = 0; i < word.size(); ++i) {
        const bool here =
            i + 1 < word.size() && word[i] == which.first && word[i + 1] == which.second;
        after.push_back(here ? merged : word[i]);
        i += here ? 1 : 0;
      }
      word = after;
    }
  }
  return learnt;
}

}  // namespace

TEST_CASE("learnt pieces are those of counting everything again", "[unit][text][train]") {
  const std::vector<std::string> texts = sample_texts();
  for (const std::size_t min_count : {1u, 2u, 30u}) {
    const std::vector<std::string> all =
        pieces_of(train_vocabulary(texts, {.size = 400, .min_count = min_count}));
    const auto is_letter = [](const std::string& piece) {
      return piece.size() == 1 || (piece.size() == 3 && piece.starts_with("##"));
    };
    const auto first = std::find_if(all.begin() + 5, all.end(), std::not_fn(is_letter));
    const std::vector<std::string> learnt(first, all.end());
    const std::vector<std::string> wanted = learn_plainly(texts, learnt.size() + 1, min_count);
    INFO("min_count " << min_count);
    CHECK(learnt.size() > 50);
    // All there is, or as many as asked for.
    CHECK((wanted.size() == learnt.size() || all.size() == 400));
    CHECK(std::vector<std::string>(wanted.begin(),
                                   wanted.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                        wanted.size(), learnt.size()))) == learnt);
  }
}

TEST_CASE("small vocabularies by hand", "[unit][text][train]") {
  // With 13 characters, ab scores 2 log(13 * 2 / (2 * 2)) and cd scores 3 log(13 * 3 / (4 * 3)):
  // "ab" is first.
  const std::vector<std::string> texts{"ab cd", "cd AB!", "c\xC3\xA9 cd"};
  CHECK(pieces_of(train_vocabulary(texts, {.size = 100})) ==
        std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "!", "a", "b", "c",
                                 "d", "e", "##b", "##d", "##e", "ab", "cd"});
  CHECK(train_vocabulary(texts, {.size = 100, .min_count = 3}).contains("cd"));
  CHECK_FALSE(train_vocabulary(texts, {.size = 100, .min_count = 3}).contains("ab"));
  CHECK(train_vocabulary(texts, {.size = 100, .min_count = 1}).contains("ce"));
  CHECK(train_vocabulary(texts, {.size = 15}).size() == 15);
  TokenizerOptions cased;
  cased.split.lowercase = false;
  CHECK(train_vocabulary(texts, {.size = 100, .min_count = 1}, cased).contains("AB"));
  CHECK(train_vocabulary(texts, {.size = 100, .min_count = 1}, cased).contains("c\xC3\xA9"));
}

TEST_CASE("special tokens in a text are no words where the tokenizer looks for them",
          "[unit][text][train]") {
  const std::vector<std::string> texts{"ab [MASK]ab [SEP]"};
  TokenizerOptions options;
  CHECK(pieces_of(train_vocabulary(texts, {.size = 100}, options)) ==
        std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b",
                                 "ab"});
  options.special_in_text = false;
  CHECK(train_vocabulary(texts, {.size = 100}, options).contains("["));
}

TEST_CASE("the alphabet is limited to frequent characters", "[unit][text][train]") {
  const std::vector<std::string> texts{"ab ab ab cb", "xy"};
  const Vocabulary vocabulary =
      train_vocabulary(texts, {.size = 100, .min_count = 1, .alphabet_limit = 2});
  CHECK(pieces_of(vocabulary) == std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                          "[MASK]", "a", "b", "##b", "ab"});
}

TEST_CASE("the order of texts makes no difference, and words of the text are known",
          "[unit][text][train]") {
  std::vector<std::string> texts = sample_texts();
  const Vocabulary vocabulary = train_vocabulary(texts, {.size = 120});
  const Tokenizer tokenizer(vocabulary);
  for (const std::string& text : texts)
    for (const std::int32_t id : tokenizer.encode(text).ids) REQUIRE(id != tokenizer.unknown_id());
  std::reverse(texts.begin(), texts.end());
  CHECK(train_vocabulary(texts, {.size = 120}) == vocabulary);
}

TEST_CASE("trainings that cannot be are refused", "[unit][text][train]") {
  const std::vector<std::string> none{" \n", ""};
  CHECK(message_of([&] { train_vocabulary(none); }) ==
        "VocabularyTrainer: text is without words, wanted some words [text.training]");
  const std::vector<std::string> texts{"ab"};
  CHECK(message_of([&] { train_vocabulary(texts, {.size = 7}); }) ==
        "VocabularyTrainer: size is 7, wanted at least 8, for special tokens and alphabet "
        "[text.training]");
  CHECK(train_vocabulary(texts, {.size = 8}).size() == 8);
}
