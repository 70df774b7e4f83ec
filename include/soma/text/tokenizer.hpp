#pragma once
// Tokenizer: text to word pieces and back, as in BERT. It gives the same ids as the `tokenizers`
// package's BertWordPieceTokenizer and the fast tokenizers built on it.
//
//   words    see word_splitter.hpp
//   pieces   of a word, from its start: the longest piece of the vocabulary that fits, then the
//            longest with the prefix "##" that fits, and so on; a word that is not used up this
//            way is one unknown token
//   special  [CLS] first, [SEP] behind each text

#include <soma/runtime/parallel.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/text/encoder.hpp>
#include <soma/text/special_tokens.hpp>
#include <soma/text/tokenizer_options.hpp>
#include <soma/text/vocabulary.hpp>
#include <soma/text/word_splitter.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

struct Encoding {
  std::vector<std::int32_t> ids = {};
  std::vector<std::int32_t> types;  // 0: first text, 1: second
  // On request: bytes of the text (for a pair: of the token's own text); [CLS] and [SEP] have {0,
  // 0}.
  std::vector<Span> offsets;
  std::size_t replaced = 0;  // invalid UTF-8 sequences, which were read as U+FFFD
};

// Tokens of many texts: the tokens of text i are ids[offsets[i]] up to ids[offsets[i + 1]].
struct TokenizedTexts {
  std::vector<std::int32_t> ids = {};
  std::vector<std::size_t> offsets = {};
  std::size_t replaced = 0;
};

// Immutable: any number of threads may use it.
class Tokenizer final : public Encoder {
 public:
  // Error text.special_token: the vocabulary lacks a special token, or the token is empty.
  explicit Tokenizer(Vocabulary vocabulary, TokenizerOptions options = {});

  const Vocabulary& vocabulary() const { return vocabulary_; }
  const TokenizerOptions& options() const { return options_; }
  std::int32_t unknown_id() const { return unknown_; }
  std::int32_t start_id() const { return start_; }
  std::int32_t separator_id() const { return separator_; }
  std::int32_t padding_id() const { return padding_; }
  std::int32_t mask_id() const { return mask_; }  // Vocabulary::absent: it has none
  bool is_special(std::int32_t id) const override;
  std::size_t id_count() const override;

  // Encodes one text: [CLS] text [SEP]. Error text.max_length: no room for these two tokens.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Encodes two texts: [CLS] text [SEP] second [SEP]. If they are too long, the longer text is cut
  // to the length of the other, then both alike (the reference's "longest first"). Error
  // text.max_length: no room for these three tokens.
  Encoding encode(std::string_view text, std::string_view second,
                  const EncodeOptions& options = {}) const;

  // Appends encode(text, {.max_length = max_length}).ids without further allocations. Returns the
  // number of invalid sequences in the text that was read. If the right end is cut off, text after
  // the last token is not read. Errors as of encode.
  std::size_t encode_ids(std::string_view text, std::size_t max_length,
                         std::vector<std::int32_t>& append_to) const;

  // encode_ids for many texts on all of the context's threads; the result does not depend on the
  // number of threads. Texts are std::string or std::string_view. Errors as of encode.
  template <class Text>
  TokenizedTexts encode_all(Context& context, std::span<const Text> texts,
                            std::size_t max_length = no_limit,
                            const StopFlag* stop = nullptr) const;

  // The text of the ids, as far as possible: a space before every piece that begins a word. Error
  // text.token_id.
  std::string decode(std::span<const std::int32_t> ids, const DecodeOptions& options = {}) const;

  std::size_t append_ids(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string text_of(std::span<const std::int32_t> ids) const override;

 private:
  std::int32_t require(std::string_view argument, const std::string& token);

  std::size_t room_for(const EncodeOptions& options, std::size_t special) const;

  static std::pair<std::size_t, std::size_t> longest_first(std::size_t first, std::size_t second,
                                                           std::size_t room);

  // Keeps at most `length` elements after the first `kept`.
  template <class List>
  void shorten(List& list, std::size_t kept, std::size_t length) const {
    if (list.size() <= kept || list.size() - kept <= length) return;
    const auto begin = list.begin() + static_cast<std::ptrdiff_t>(kept);
    if (cuts_left())
      list.erase(begin, list.end() - static_cast<std::ptrdiff_t>(length));
    else
      list.erase(begin + static_cast<std::ptrdiff_t>(length), list.end());
  }
  void cut(Encoding& encoding, std::size_t length) const;
  bool cuts_left() const { return options_.truncation_side == TruncationSide::left; }
  void insert_start(Encoding& encoding, bool offsets) const;
  void append_separator(Encoding& encoding, std::int32_t type, bool offsets) const;

  // At most `room` pieces of a text, all of type 0.
  Encoding pieces(std::string_view text, std::size_t room, bool offsets) const;

  std::size_t encode_ids(std::string_view text, std::size_t max_length,
                         std::vector<std::int32_t>& append_to, WordSplitter& splitter) const;

  static constexpr bool read_all = true, stop_when_full = false;

  // Returns the number of invalid sequences.
  std::size_t append_pieces(std::string_view text, std::size_t room, WordSplitter& splitter,
                            std::vector<std::int32_t>& ids, std::vector<Span>* offsets,
                            bool to_the_end) const;

  void append_word(const Word& word, std::vector<std::int32_t>& ids,
                   std::vector<Span>* offsets) const;

  struct Match {
    std::int32_t id = Vocabulary::absent;
    std::size_t bytes = 0;
  };

  // The longest piece that `text` starts with. One pass computes the hashes of all its beginnings.
  Match longest_match(std::string_view text, bool begins) const;

  static bool joins_the_word_before(std::string_view piece);

  Vocabulary vocabulary_;
  TokenizerOptions options_;
  SplitRules rules_;
  PieceHash continuing_hash_;
  SpecialTokenFinder finder_;
  std::vector<std::int32_t> special_;
  std::int32_t unknown_ = 0, start_ = 0, separator_ = 0, padding_ = 0, mask_ = Vocabulary::absent;
};

template <class Text>
TokenizedTexts Tokenizer::encode_all(Context& context, std::span<const Text> texts,
                                     std::size_t max_length, const StopFlag* stop) const {
  static_assert(std::is_convertible_v<const Text&, std::string_view>);
  room_for({.max_length = max_length}, 2);  // refused here, even if there are no texts
  // Several parts for each thread, with about the same number of bytes: texts differ in length.
  std::size_t bytes = 0;
  for (const Text& text : texts) bytes += std::string_view(text).size() + 1;
  const auto wanted = static_cast<std::size_t>(context.executor().width) * 8;
  const std::size_t share = bytes / wanted + 1;
  std::vector<std::size_t> bounds{0};
  for (std::size_t i = 0, filled = 0; i < texts.size(); ++i) {
    filled += std::string_view(texts[i]).size() + 1;
    if (filled < share && i + 1 < texts.size()) continue;
    bounds.push_back(i + 1);
    filled = 0;
  }
  const std::size_t parts = bounds.size() - 1;
  std::vector<TokenizedTexts> found(parts);
  parallel(context, static_cast<int>(parts), [&](int index) {
    const auto part = static_cast<std::size_t>(index);
    TokenizedTexts& lists = found[part];
    WordSplitter splitter(rules_);
    for (std::size_t i = bounds[part]; i < bounds[part + 1]; ++i) {
      check_stop(stop, "Tokenizer");
      lists.replaced += encode_ids(texts[i], max_length, lists.ids, splitter);
      lists.offsets.push_back(lists.ids.size());
    }
  });
  TokenizedTexts all;
  all.offsets.reserve(texts.size() + 1);
  all.offsets.push_back(0);
  std::size_t total = 0;
  for (const TokenizedTexts& lists : found) total += lists.ids.size();
  all.ids.reserve(total);
  for (TokenizedTexts& lists : found) {
    for (const std::size_t end : lists.offsets) all.offsets.push_back(all.ids.size() + end);
    all.ids.insert(all.ids.end(), lists.ids.begin(), lists.ids.end());
    all.replaced += lists.replaced;
    lists = {};
  }
  return all;
}

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/tokenizer.ipp>
#endif
