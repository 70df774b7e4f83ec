#pragma once
// The functions of train_vocabulary.hpp.

#include <soma/text/train_vocabulary.hpp>

#include <soma/runtime/stop_flag.hpp>
#include <soma/text/pair_counts.hpp>
#include <soma/text/special_tokens.hpp>
#include <soma/text/tokenizer.hpp>
#include <soma/text/vocabulary.hpp>
#include <soma/text/word_splitter.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE VocabularyTrainer::VocabularyTrainer(const TokenizerOptions& tokenizer)
    : tokenizer_(tokenizer), rules_(tokenizer_.split), splitter_(rules_) {
  for (const std::string& token : special_tokens())
    if (tokenizer_.special_in_text && !token.empty()) finder_.add(token, 0);
}

SOMA_INLINE void VocabularyTrainer::add(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Span special = finder_.next(text, at).source;
    splitter_.split(text, {at, special.begin}, [&](const Word& word) {
      if (word.too_long) return true;
      key_.assign(word.text);  // so that only new words allocate
      ++words_[key_];
      return true;
    });
    at = special.end;
  }
}

SOMA_INLINE Vocabulary VocabularyTrainer::train(const TrainingOptions& options) const {
  if (words_.empty())
    fail(error_id::text_training, "VocabularyTrainer", "text", "without words", "some words");
  // The order of a hash map is not reliable.
  std::vector<std::pair<std::string_view, std::uint64_t>> words(words_.begin(), words_.end());
  std::sort(words.begin(), words.end());

  std::vector<std::string> pieces;
  std::unordered_set<std::string> taken;  // a special token may look like another piece
  const auto add_piece = [&](const std::string& piece) {
    if (!piece.empty() && taken.insert(piece).second) pieces.push_back(piece);
  };
  for (const std::string& token : special_tokens()) add_piece(token);

  const std::vector<Character> alphabet = alphabet_of(words, options.alphabet_limit);
  PairCounts counts(tokenizer_.continuing);
  for (const Character& character : alphabet) add_piece(character.text);
  for (const Character& character : alphabet)
    if (character.inside) add_piece(tokenizer_.continuing + character.text);
  if (pieces.size() > options.size)
    fail(error_id::text_training, "VocabularyTrainer", "size", std::to_string(options.size),
         "at least " + std::to_string(pieces.size()) + ", for special tokens and alphabet");

  std::unordered_set<std::string_view> known;
  for (const Character& character : alphabet) known.insert(character.text);
  for (const auto& [word, count] : words) {
    check_stop(options.stop, "VocabularyTrainer");
    const std::vector<std::string_view> characters = characters_of(word);
    const auto is_known = [&](std::string_view character) { return known.contains(character); };
    if (std::all_of(characters.begin(), characters.end(), is_known))
      counts.add_word(characters, count);
  }
  counts.start(options.min_count);
  std::string learnt;
  while (pieces.size() < options.size && counts.merge_best(learnt)) {
    check_stop(options.stop, "VocabularyTrainer");
    if (!learnt.empty()) add_piece(learnt);
  }
  return Vocabulary::from_pieces(pieces, "VocabularyTrainer");
}

SOMA_INLINE std::vector<std::string> VocabularyTrainer::special_tokens() const {
  std::vector<std::string> tokens{tokenizer_.padding, tokenizer_.unknown, tokenizer_.start,
                                  tokenizer_.separator, tokenizer_.mask};
  tokens.insert(tokens.end(), tokenizer_.more_special.begin(), tokenizer_.more_special.end());
  return tokens;
}

SOMA_INLINE std::vector<std::string_view> VocabularyTrainer::characters_of(std::string_view word) {
  std::vector<std::string_view> characters;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t bytes = decode_utf8(word, at).bytes;
    characters.push_back(word.substr(at, bytes));
    at += bytes;
  }
  return characters;
}

SOMA_INLINE auto VocabularyTrainer::alphabet_of(
    const std::vector<std::pair<std::string_view, std::uint64_t>>& words, std::size_t limit)
    -> std::vector<Character> {
  std::unordered_map<std::string_view, std::size_t> indices;
  std::vector<Character> alphabet;
  for (const auto& [word, count] : words) {
    bool inside = false;
    for (const std::string_view text : characters_of(word)) {
      const auto [entry, is_new] = indices.emplace(text, alphabet.size());
      if (is_new) alphabet.push_back({.text = std::string(text)});
      Character& character = alphabet[entry->second];
      character.count += count;
      character.inside = character.inside || inside;
      inside = true;
    }
  }
  const auto by_text = [](const Character& a, const Character& b) { return a.text < b.text; };
  const auto by_count = [](const Character& a, const Character& b) {
    return a.count != b.count ? a.count > b.count : a.text < b.text;
  };
  std::sort(alphabet.begin(), alphabet.end(), by_count);
  if (alphabet.size() > limit) alphabet.resize(limit);
  std::sort(alphabet.begin(), alphabet.end(), by_text);
  return alphabet;
}

}  // namespace SOMA_NAMESPACE::text
