#pragma once
// The functions of tokenizer.hpp.

#include <soma/text/tokenizer.hpp>

#include <soma/runtime/parallel.hpp>
#include <soma/runtime/stop_flag.hpp>
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

SOMA_INLINE Tokenizer::Tokenizer(Vocabulary vocabulary, TokenizerOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)), rules_(options_.split) {
  unknown_ = require("unknown", options_.unknown);
  start_ = require("start", options_.start);
  separator_ = require("separator", options_.separator);
  padding_ = require("padding", options_.padding);
  if (options_.mask.empty() || !vocabulary_.contains(options_.mask))
    options_.mask.clear();
  else
    mask_ = require("mask", options_.mask);
  for (const std::string& token : options_.more_special) require("more_special", token);
  continuing_hash_ = PieceHash().add(options_.continuing);
}

SOMA_INLINE bool Tokenizer::is_special(std::int32_t id) const {
  return std::find(special_.begin(), special_.end(), id) != special_.end();
}

SOMA_INLINE Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const std::size_t room = room_for(options, 2);
  Encoding result = pieces(text, room, options.offsets);
  if (options.special_tokens) {
    insert_start(result, options.offsets);
    append_separator(result, 0, options.offsets);
  }
  return result;
}

SOMA_INLINE Encoding Tokenizer::encode(std::string_view text, std::string_view second,
                                       const EncodeOptions& options) const {
  const std::size_t room = room_for(options, 3);
  // Both are encoded whole first: the cut depends on which text is longer, however long both are.
  Encoding result = pieces(text, no_limit, options.offsets);
  Encoding other = pieces(second, no_limit, options.offsets);
  const auto [first_length, second_length] =
      longest_first(result.ids.size(), other.ids.size(), room);
  cut(result, first_length);
  cut(other, second_length);
  if (options.special_tokens) {
    insert_start(result, options.offsets);
    append_separator(result, 0, options.offsets);
  }
  result.ids.insert(result.ids.end(), other.ids.begin(), other.ids.end());
  result.types.resize(result.ids.size(), 1);
  result.offsets.insert(result.offsets.end(), other.offsets.begin(), other.offsets.end());
  result.replaced += other.replaced;
  if (options.special_tokens) append_separator(result, 1, options.offsets);
  return result;
}

SOMA_INLINE std::size_t Tokenizer::encode_ids(std::string_view text, std::size_t max_length,
                                              std::vector<std::int32_t>& append_to) const {
  WordSplitter splitter(rules_);
  return encode_ids(text, max_length, append_to, splitter);
}

SOMA_INLINE std::string Tokenizer::decode(std::span<const std::int32_t> ids,
                                          const DecodeOptions& options) const {
  std::string text;
  bool first = true;
  for (const std::int32_t id : ids) {
    std::string_view piece = vocabulary_.piece(id);
    if (options.skip_special_tokens && is_special(id)) continue;
    const bool inside = !first && piece.starts_with(options_.continuing);
    if (inside)
      piece.remove_prefix(options_.continuing.size());
    else if (!first && !(options.clean_up && joins_the_word_before(piece)))
      text.push_back(' ');
    text.append(piece);
    first = false;
  }
  return text;
}

SOMA_INLINE std::int32_t Tokenizer::require(std::string_view argument, const std::string& token) {
  const std::int32_t id = token.empty() ? Vocabulary::absent : vocabulary_.find(token);
  if (id == Vocabulary::absent)
    fail(error_id::text_special_token, "Tokenizer", argument, soma::quoted(token),
         "a piece of the vocabulary");
  if (!is_special(id)) {
    special_.push_back(id);
    finder_.add(token, id);
  }
  return id;
}

SOMA_INLINE std::size_t Tokenizer::room_for(const EncodeOptions& options,
                                            std::size_t special) const {
  if (!options.special_tokens) return options.max_length;
  if (options.max_length < special)
    fail(error_id::text_max_length, "Tokenizer", "max_length", std::to_string(options.max_length),
         "at least the " + std::to_string(special) + " special tokens");
  return options.max_length == no_limit ? no_limit : options.max_length - special;
}

SOMA_INLINE std::pair<std::size_t, std::size_t> Tokenizer::longest_first(std::size_t first,
                                                                         std::size_t second,
                                                                         std::size_t room) {
  if (first <= room && second <= room - first) return {first, second};
  // Lengths beyond the room cut alike, so that no sum overflows.
  std::size_t shorter = std::min(first, second);
  std::size_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter > room || longer > room - shorter) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return first > second ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

SOMA_INLINE void Tokenizer::cut(Encoding& encoding, std::size_t length) const {
  shorten(encoding.ids, 0, length);
  shorten(encoding.types, 0, length);
  shorten(encoding.offsets, 0, length);
}

SOMA_INLINE void Tokenizer::insert_start(Encoding& encoding, bool offsets) const {
  encoding.ids.insert(encoding.ids.begin(), start_);
  encoding.types.insert(encoding.types.begin(), 0);
  if (offsets) encoding.offsets.insert(encoding.offsets.begin(), Span{});
}

SOMA_INLINE void Tokenizer::append_separator(Encoding& encoding, std::int32_t type,
                                             bool offsets) const {
  encoding.ids.push_back(separator_);
  encoding.types.push_back(type);
  if (offsets) encoding.offsets.push_back({});
}

SOMA_INLINE Encoding Tokenizer::pieces(std::string_view text, std::size_t room,
                                       bool offsets) const {
  Encoding result;
  WordSplitter splitter(rules_, offsets);
  result.replaced = append_pieces(text, room, splitter, result.ids,
                                  offsets ? &result.offsets : nullptr, read_all);
  result.types.assign(result.ids.size(), 0);
  return result;
}

SOMA_INLINE std::size_t Tokenizer::encode_ids(std::string_view text, std::size_t max_length,
                                              std::vector<std::int32_t>& append_to,
                                              WordSplitter& splitter) const {
  const std::size_t room = room_for({.max_length = max_length}, 2);
  append_to.push_back(start_);
  const std::size_t replaced =
      append_pieces(text, room, splitter, append_to, nullptr, stop_when_full);
  append_to.push_back(separator_);
  return replaced;
}

SOMA_INLINE std::string Tokenizer::text_of(std::span<const std::int32_t> ids) const {
  return decode(ids);
}

SOMA_INLINE std::size_t Tokenizer::id_count() const { return vocabulary_.size(); }

SOMA_INLINE std::size_t Tokenizer::append_ids(std::string_view text,
                                              std::vector<std::int32_t>& ids) const {
  WordSplitter splitter(rules_, false);
  return append_pieces(text, no_limit, splitter, ids, nullptr, read_all);
}

SOMA_INLINE std::size_t Tokenizer::append_pieces(std::string_view text, std::size_t room,
                                                 WordSplitter& splitter,
                                                 std::vector<std::int32_t>& ids,
                                                 std::vector<Span>* offsets,
                                                 bool to_the_end) const {
  const std::size_t first = ids.size();
  const std::size_t most = cuts_left() || room > no_limit - first ? no_limit : first + room;
  std::size_t replaced = 0;
  const auto drop_rest = [&] {
    if (ids.size() <= most) return;
    ids.resize(most);
    if (offsets != nullptr) offsets->resize(most - first);
  };
  for (std::size_t at = 0; at < text.size() && (to_the_end || ids.size() < most);) {
    SpecialTokenFinder::Found special{{text.size(), text.size()}, Vocabulary::absent};
    if (options_.special_in_text) special = finder_.next(text, at);
    replaced += splitter.split(text, {at, special.source.begin}, [&](const Word& word) {
      if (ids.size() < most) {
        append_word(word, ids, offsets);
        drop_rest();
      }
      return to_the_end || ids.size() < most;
    });
    if (special.id != Vocabulary::absent && ids.size() < most) {
      ids.push_back(special.id);
      if (offsets != nullptr) offsets->push_back(special.source);
    }
    at = special.source.end;
  }
  if (cuts_left()) {
    shorten(ids, first, room);
    if (offsets != nullptr) shorten(*offsets, 0, room);
  }
  return replaced;
}

SOMA_INLINE void Tokenizer::append_word(const Word& word, std::vector<std::int32_t>& ids,
                                        std::vector<Span>* offsets) const {
  const std::size_t before = ids.size();
  const std::size_t offsets_before = offsets == nullptr ? 0 : offsets->size();
  std::string_view rest = word.text;
  bool known = !word.too_long;
  for (bool begins = true; known && !rest.empty(); begins = false) {
    const Match match = longest_match(rest, begins);
    known = match.id != Vocabulary::absent;
    if (!known) break;
    if (offsets != nullptr) {
      const auto begin = static_cast<std::size_t>(rest.data() - word.text.data());
      offsets->push_back({word.sources[begin].begin, word.sources[begin + match.bytes - 1].end});
    }
    ids.push_back(match.id);
    rest.remove_prefix(match.bytes);
  }
  if (known) return;
  ids.resize(before);
  ids.push_back(unknown_);
  if (offsets == nullptr) return;
  offsets->resize(offsets_before);
  offsets->push_back(word.source);
}

SOMA_INLINE auto Tokenizer::longest_match(std::string_view text, bool begins) const -> Match {
  constexpr std::size_t most_at_once = 256;
  std::uint64_t hashes[most_at_once];  // not initialised: few are used
  PieceHash hash = begins ? PieceHash() : continuing_hash_;
  const std::string_view prefix = begins ? std::string_view() : options_.continuing;
  const std::size_t longest = std::min(text.size(), vocabulary_.longest());
  const std::size_t count = std::min(longest, most_at_once);
  for (std::size_t i = 0; i < count; ++i) hashes[i] = (hash = hash.add(text[i])).state;
  for (std::size_t bytes = longest; bytes > 0; --bytes) {
    // Only whole code points: pieces are valid UTF-8, so no piece ends within one.
    if (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) continue;
    const std::string_view start = text.substr(0, bytes);
    PieceHash all{hashes[std::min(bytes, count) - 1]};
    if (bytes > count) all = all.add(start.substr(count));
    const std::int32_t id = vocabulary_.find_joined(prefix, start, all);
    if (id != Vocabulary::absent) return {id, bytes};
  }
  return {};
}

SOMA_INLINE bool Tokenizer::joins_the_word_before(std::string_view piece) {
  for (const std::string_view start : {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"})
    if (piece.starts_with(start)) return true;
  return false;
}

}  // namespace SOMA_NAMESPACE::text
