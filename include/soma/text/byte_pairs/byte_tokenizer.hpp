#pragma once
// ByteTokenizer: the tokenizers of GPT-2 and of the models after it, with the ids of the package
// `tokenizers`. A text is cut into words (word_scanner.hpp), and a word's bytes are joined to
// tokens pair by pair (pair_merges.hpp). TinyLlama's and Llama 2's kind joins characters instead,
// of which those without a token are read byte by byte.

#include <soma/text/byte_pairs/byte_pieces.hpp>
#include <soma/text/byte_pairs/normal_text.hpp>
#include <soma/text/byte_pairs/pair_merges.hpp>
#include <soma/text/byte_pairs/word_scanner.hpp>
#include <soma/text/encoder.hpp>
#include <soma/text/special_tokens.hpp>
#include <soma/text/tokenizer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

// A token that is found in a text as written, before words are.
struct ByteAddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = true;
  bool normalized = false;                       // found in the normal form of the text
  bool strip_left = false, strip_right = false;  // takes the white space beside it
};

// The content of a tokenizer's files.
struct ByteTokenizerParts {
  WordPattern pattern = WordPattern::gpt2;
  Normalization normalization{};
  // Pieces are bytes; the symbols of a word are single bytes. false: symbols are characters, and
  // the pieces <0x00> to <0xFF> stand for bytes.
  bool byte_level = true;
  bool whole_words = false;  // a word that is a piece is taken as it is (Llama 3)
  bool begins_text = false;  // the first text alone gets the mark of Normalization::prepend
  std::vector<std::string> pieces{};  // by id; empty: an id without a piece
  std::vector<PairMerge> merges{};
  std::vector<ByteAddedToken> added{};
  std::vector<std::int32_t> before{}, after{};  // ids around a text
  std::int32_t start = -1, end = -1;            // bos_token and eos_token; -1: none
};

// Immutable: any number of threads may use it.
class ByteTokenizer final : public Encoder {
 public:
  // A byte of a text without a piece is left out, as the package does (SmolLM2's vocabulary lacks
  // 21 bytes, which UTF-8 hardly has). Error text.tokenizer_file: the pieces are characters and
  // lack one for a byte, a merge of pieces that are none, two added tokens with one id.
  explicit ByteTokenizer(ByteTokenizerParts parts, std::string_view name = "memory");

  // The tokenizer of a folder: tokenizer.json, or vocab.json and merges.txt as GPT-2 of 2019 has
  // them, and tokenizer_config.json. Errors file.read, text.tokenizer_file: another kind of
  // tokenizer, which is quoted.
  static ByteTokenizer from_files(std::string_view folder);

  // The ids of a text with the special tokens around it, which are left out without
  // options.special_tokens; cut on the right. `types` stay empty. Error text.max_length: no room
  // for the special tokens.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  std::size_t append_ids(std::string_view text, std::vector<std::int32_t>& ids) const override;

  // Invalid bytes become U+FFFD. Error text.token_id.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const;
  std::string text_of(std::span<const std::int32_t> ids) const override;
  // The bytes of one token, with a space for each mark. Empty: an id without a token. Error
  // text.token_id.
  std::string bytes_of(std::int32_t id) const;

  std::size_t id_count() const override;
  bool is_special(std::int32_t id) const override;
  // Ids of bos_token and eos_token; `absent`: the files name none.
  std::int32_t start_id() const { return parts_.start; }
  std::int32_t end_id() const { return parts_.end; }
  // Ids that encode puts before and behind a text.
  std::span<const std::int32_t> before() const { return parts_.before; }
  std::span<const std::int32_t> after() const { return parts_.after; }
  // The text begins with a space that decode takes away (sentencepiece).
  bool strips_first_space() const { return parts_.normalization.prepend; }

 private:
  enum class Kind : std::uint8_t { none, piece, whole, added, special };
  struct Target;

  Kind kind(std::int32_t id) const { return kinds_[static_cast<std::size_t>(id)]; }
  void check_id(std::string_view operation, std::int32_t id) const;
  void number_bytes(std::string_view name);
  void add_tokens(std::string_view name);
  // A piece is whole if its bytes, joined by themselves, are the piece.
  void find_whole_pieces();

  void append_text(std::string_view text, Target& target) const;
  void append_between(std::string_view text, std::size_t begin, Target& target) const;
  void append_words(std::string_view words, Target& target) const;
  void append_word(std::string_view word, Target& target) const;
  void symbols_of(std::string_view word, std::vector<PairSymbol>& symbols) const;
  SpecialTokenFinder::Found next_added(const SpecialTokenFinder& finder, std::string_view text,
                                       std::size_t at) const;
  const ByteAddedToken& added_token(std::int32_t id) const;

  ByteTokenizerParts parts_;
  BytePieces pieces_;
  PairMerges merges_;
  std::array<std::int32_t, 256> byte_ids_{};
  std::vector<Kind> kinds_;  // by id
  SpecialTokenFinder as_written_, in_normal_text_;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/byte_pairs/impl/byte_tokenizer.ipp>
#endif
