#pragma once
// Learns a WordPiece vocabulary from text. Words begin as single characters. Again and again one
// pair of neighbours becomes one piece, until the vocabulary has its size: the pair that raises the
// likelihood of the text most, if each piece is drawn independently (Schuster and Nakajima 2012).
// The increase is
//   count(ab) * log(characters * count(ab) / (count(a) * count(b)))
// Without the first factor, which many implementations omit, rare words would come first.

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

struct TrainingOptions {
  std::size_t size = 8192;            // pieces, the special tokens included; may end with fewer
  std::size_t min_count = 2;          // pairs that are seen less often are left apart
  std::size_t alphabet_limit = 1000;  // only the most frequent characters are kept
  const StopFlag* stop = nullptr;     // ends the learning with runtime.stopped
};

// Counts words, text after text, and learns from the counts. The order of texts makes no
// difference.
class VocabularyTrainer {
 public:
  explicit VocabularyTrainer(const TokenizerOptions& tokenizer = {});
  VocabularyTrainer(const VocabularyTrainer&) = delete;
  VocabularyTrainer& operator=(const VocabularyTrainer&) = delete;

  // If the tokenizer searches for special tokens, special tokens in the text are not counted.
  void add(std::string_view text);

  // The order is: special tokens, the alphabet, then pieces in the order in which they were learnt.
  // Every character of the alphabet is a piece, and a second piece for the inside of words if it
  // occurs there: so no word of known characters is unknown. Words with other characters are left
  // out. Equal scores are decided by the bytes of the pieces. Errors text.training (the size has no
  // room for special tokens and alphabet, or there is no text), runtime.stopped.
  Vocabulary train(const TrainingOptions& options = {}) const;

 private:
  std::vector<std::string> special_tokens() const;

  struct Character {
    std::string text;
    std::uint64_t count = 0;
    bool inside = false;  // true: the piece follows another one in a word
  };

  static std::vector<std::string_view> characters_of(std::string_view word);

  // The most frequent characters, in the order of their bytes.
  static std::vector<Character> alphabet_of(
      const std::vector<std::pair<std::string_view, std::uint64_t>>& words, std::size_t limit);

  TokenizerOptions tokenizer_;
  SplitRules rules_;
  WordSplitter splitter_;
  SpecialTokenFinder finder_;
  std::unordered_map<std::string, std::uint64_t> words_;
  std::string key_;
};

// Counts and learns in one call. Texts are std::string or std::string_view. Error text.training.
template <class Texts>
Vocabulary train_vocabulary(const Texts& texts, const TrainingOptions& options = {},
                            const TokenizerOptions& tokenizer = {}) {
  VocabularyTrainer trainer(tokenizer);
  for (const auto& text : texts) trainer.add(text);
  return trainer.train(options);
}

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/train_vocabulary.ipp>
#endif
