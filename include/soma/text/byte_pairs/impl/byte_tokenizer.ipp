#pragma once
// The functions of byte_tokenizer.hpp, except those that read files.

#include <soma/text/byte_pairs/byte_tokenizer.hpp>

#include <soma/base/error.hpp>
#include <soma/text/unicode.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

[[noreturn]] SOMA_INLINE void refuse_byte_tokenizer(std::string_view name, std::string problem) {
  fail(error_id::text_tokenizer_file, "ByteTokenizer", "file",
       soma::quoted(name) + ", " + std::move(problem),
       "a byte-level tokenizer as GPT-2's, SmolLM's, Qwen2's or Llama's");
}

// "<0x0A>" for a newline.
SOMA_INLINE std::string byte_name(unsigned byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">";
}

// Text of any bytes as UTF-8, with U+FFFD for what is none.
SOMA_INLINE std::string repaired_utf8(std::string bytes) {
  if (is_utf8(bytes)) return bytes;
  return std::string(NormalText(bytes, {}).view());
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

// Where ids go, and memory that words share.
struct ByteTokenizer::Target {
  std::vector<std::int32_t>& ids;
  std::vector<Span>* offsets = nullptr;
  std::size_t replaced = 0;
  // Bytes of words lie in `normal`, and this in the text from `begin` on.
  const NormalText* normal = nullptr;
  std::size_t begin = 0;
  std::size_t at = 0;  // bytes of `normal` that have ids
  std::vector<PairSymbol> symbols{};

  void add(std::int32_t id, std::size_t bytes) {
    ids.push_back(id);
    if (offsets != nullptr) {
      const Span source = normal->source_of({at, at + bytes});
      offsets->push_back({begin + source.begin, begin + source.end});
    }
    at += bytes;
  }
};

SOMA_INLINE ByteTokenizer::ByteTokenizer(ByteTokenizerParts parts, std::string_view name)
    : parts_(std::move(parts)), pieces_(parts_.pieces), merges_(parts_.merges) {
  kinds_.resize(parts_.pieces.size());
  for (std::size_t id = 0; id < kinds_.size(); ++id)
    if (!parts_.pieces[id].empty()) kinds_[id] = Kind::piece;
  number_bytes(name);
  const auto is_piece = [&](std::int32_t id) {
    return id >= 0 && static_cast<std::size_t>(id) < parts_.pieces.size() &&
           kind(id) == Kind::piece;
  };
  for (const PairMerge& merge : parts_.merges)
    if (!is_piece(merge.left) || !is_piece(merge.right) || !is_piece(merge.result))
      detail::refuse_byte_tokenizer(name, "with a merge of ids that are no pieces");
  find_whole_pieces();
  add_tokens(name);
  // The tables have them now.
  parts_.pieces = {};
  parts_.merges = {};
}

SOMA_INLINE void ByteTokenizer::number_bytes(std::string_view name) {
  for (unsigned byte = 0; byte < byte_ids_.size(); ++byte) {
    const std::string piece =
        parts_.byte_level ? std::string(1, static_cast<char>(byte)) : detail::byte_name(byte);
    byte_ids_[byte] = pieces_.find(piece);
    // SmolLM's vocabulary lacks some bytes, which its texts did not have.
    if (byte_ids_[byte] == BytePieces::absent && !parts_.byte_level)
      detail::refuse_byte_tokenizer(name,
                                    "without a piece for the byte " + detail::byte_name(byte));
  }
}

SOMA_INLINE void ByteTokenizer::add_tokens(std::string_view name) {
  for (const ByteAddedToken& token : parts_.added) {
    constexpr std::size_t most_ids = std::size_t{1} << 24;  // numbers in files are not trusted
    if (token.content.empty() || token.id < 0 || static_cast<std::size_t>(token.id) >= most_ids)
      detail::refuse_byte_tokenizer(name, "with the added token " + soma::quoted(token.content) +
                                              " of id " + std::to_string(token.id));
    const auto id = static_cast<std::size_t>(token.id);
    if (id >= kinds_.size()) kinds_.resize(id + 1);
    if (kinds_[id] == Kind::added || kinds_[id] == Kind::special)
      detail::refuse_byte_tokenizer(name,
                                    "with two added tokens of id " + std::to_string(token.id));
    kinds_[id] = token.special ? Kind::special : Kind::added;
    (token.normalized ? in_normal_text_ : as_written_).add(token.content, token.id);
  }
  std::sort(parts_.added.begin(), parts_.added.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
}

SOMA_INLINE void ByteTokenizer::find_whole_pieces() {
  if (parts_.pattern == WordPattern::whole) return;  // words are texts there
  std::vector<PairSymbol> symbols;
  for (std::size_t id = 0; id < parts_.pieces.size(); ++id) {
    if (kinds_[id] != Kind::piece ||
        pieces_.find(parts_.pieces[id]) != static_cast<std::int32_t>(id))
      continue;
    if (!parts_.whole_words) {
      symbols_of(parts_.pieces[id], symbols);
      merges_.join(symbols);
      if (symbols.size() != 1 || symbols[0].id != static_cast<std::int32_t>(id)) continue;
    }
    kinds_[id] = Kind::whole;
  }
}

SOMA_INLINE Encoding ByteTokenizer::encode(std::string_view text,
                                           const EncodeOptions& options) const {
  const std::size_t around =
      options.special_tokens ? parts_.before.size() + parts_.after.size() : 0;
  if (options.max_length < around)
    fail(error_id::text_max_length, "ByteTokenizer::encode", "max_length",
         std::to_string(options.max_length),
         "room for the " + std::to_string(around) + " special tokens");
  Encoding result;
  Target target{.ids = result.ids, .offsets = options.offsets ? &result.offsets : nullptr};
  if (options.special_tokens) result.ids = parts_.before;
  if (options.offsets) result.offsets.resize(result.ids.size());
  append_text(text, target);
  result.replaced = target.replaced;
  const std::size_t last = options.special_tokens ? parts_.after.size() : 0;
  if (result.ids.size() > options.max_length - last) {
    result.ids.resize(options.max_length - last);
    if (options.offsets) result.offsets.resize(result.ids.size());
  }
  if (options.special_tokens)
    result.ids.insert(result.ids.end(), parts_.after.begin(), parts_.after.end());
  if (options.offsets) result.offsets.resize(result.ids.size());
  return result;
}

SOMA_INLINE std::size_t ByteTokenizer::append_ids(std::string_view text,
                                                  std::vector<std::int32_t>& ids) const {
  Target target{.ids = ids};
  append_text(text, target);
  return target.replaced;
}

SOMA_INLINE auto ByteTokenizer::next_added(const SpecialTokenFinder& finder, std::string_view text,
                                           std::size_t at) const -> SpecialTokenFinder::Found {
  auto found = finder.next(text, at);
  if (found.id < 0) return found;
  const ByteAddedToken& token = added_token(found.id);
  const auto is_inside = [&](std::size_t place) {
    return (static_cast<unsigned char>(text[place]) & 0xC0) == 0x80;
  };
  while (token.strip_left && found.source.begin > at) {
    std::size_t place = found.source.begin - 1;
    while (place > at && is_inside(place)) --place;
    if (!is_whitespace(decode_utf8(text, place).value)) break;
    found.source.begin = place;
  }
  while (token.strip_right && found.source.end < text.size()) {
    const CodePoint next = decode_utf8(text, found.source.end);
    if (!is_whitespace(next.value)) break;
    found.source.end += next.bytes;
  }
  return found;
}

SOMA_INLINE const ByteAddedToken& ByteTokenizer::added_token(std::int32_t id) const {
  return *std::lower_bound(
      parts_.added.begin(), parts_.added.end(), id,
      [](const ByteAddedToken& token, std::int32_t value) { return token.id < value; });
}

SOMA_INLINE void ByteTokenizer::append_text(std::string_view text, Target& target) const {
  for (std::size_t at = 0; at < text.size();) {
    const auto found = next_added(as_written_, text, at);
    append_between(text.substr(at, found.source.begin - at), at, target);
    if (found.id >= 0) {
      target.ids.push_back(found.id);
      if (target.offsets != nullptr) target.offsets->push_back(found.source);
    }
    at = found.source.end;
  }
}

// A part of the text that begins there.
SOMA_INLINE void ByteTokenizer::append_between(std::string_view text, std::size_t begin,
                                               Target& target) const {
  Normalization rules = parts_.normalization;
  if (parts_.begins_text && begin != 0) rules.prepend = false;
  const NormalText normal(text, rules);
  target.normal = &normal;
  target.begin = begin;
  target.at = 0;
  target.replaced += normal.replaced();
  const std::string_view view = normal.view();
  for (std::size_t at = 0; at < view.size();) {
    const auto found = next_added(in_normal_text_, view, at);
    append_words(view.substr(at, found.source.begin - at), target);
    if (found.id >= 0) target.add(found.id, found.source.end - found.source.begin);
    at = found.source.end;
  }
}

SOMA_INLINE void ByteTokenizer::append_words(std::string_view words, Target& target) const {
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = word_end(parts_.pattern, words, at);
    append_word(words.substr(at, end - at), target);
    at = end;
  }
}

SOMA_INLINE void ByteTokenizer::append_word(std::string_view word, Target& target) const {
  if (const std::int32_t id = pieces_.find(word);
      id != BytePieces::absent && kind(id) == Kind::whole)
    return target.add(id, word.size());
  symbols_of(word, target.symbols);
  if (target.symbols.empty()) target.at += word.size();
  merges_.join(target.symbols);
  for (const PairSymbol& symbol : target.symbols) target.add(symbol.id, symbol.bytes);
}

SOMA_INLINE void ByteTokenizer::symbols_of(std::string_view word,
                                           std::vector<PairSymbol>& symbols) const {
  symbols.clear();
  std::size_t left_out = 0;  // bytes before the next symbol that have no piece
  const auto add = [&](std::int32_t id, std::size_t bytes) {
    symbols.push_back({id, bytes + left_out});
    left_out = 0;
  };
  const auto add_byte = [&](char byte) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    id == BytePieces::absent ? void(++left_out) : add(id, 1);
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t bytes = parts_.byte_level ? 1 : decode_utf8(word, at).bytes;
    const std::string_view character = word.substr(at, bytes);
    const std::int32_t id = parts_.byte_level ? BytePieces::absent : pieces_.find(character);
    if (id != BytePieces::absent)
      add(id, bytes);
    else
      for (const char byte : character) add_byte(byte);
    at += bytes;
  }
  if (!symbols.empty()) symbols.back().bytes += left_out;
}

SOMA_INLINE std::string ByteTokenizer::text_of(std::span<const std::int32_t> ids) const {
  return decode(ids);
}

SOMA_INLINE std::size_t ByteTokenizer::id_count() const { return kinds_.size(); }

SOMA_INLINE bool ByteTokenizer::is_special(std::int32_t id) const {
  check_id("ByteTokenizer::is_special", id);
  return kind(id) == Kind::special;
}

SOMA_INLINE void ByteTokenizer::check_id(std::string_view operation, std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= id_count())
    fail(error_id::text_token_id, operation, "id", std::to_string(id),
         "0 to " + std::to_string(id_count() - 1));
}

SOMA_INLINE std::string ByteTokenizer::bytes_of(std::int32_t id) const {
  check_id("ByteTokenizer::bytes_of", id);
  if (kind(id) == Kind::added || kind(id) == Kind::special) return added_token(id).content;
  std::string bytes(pieces_.piece(id));
  if (parts_.byte_level) return bytes;
  if (bytes.size() == 6 && bytes.starts_with("<0x")) {
    const auto byte = std::find(byte_ids_.begin(), byte_ids_.end(), id);
    if (byte != byte_ids_.end()) return std::string(1, static_cast<char>(byte - byte_ids_.begin()));
  }
  for (std::size_t at = 0; (at = bytes.find(space_mark, at)) != bytes.npos; ++at)
    bytes.replace(at, space_mark.size(), " ");
  return bytes;
}

SOMA_INLINE std::string ByteTokenizer::decode(std::span<const std::int32_t> ids,
                                              bool skip_special_tokens) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    check_id("ByteTokenizer::decode", id);
    if (!skip_special_tokens || kind(id) != Kind::special) bytes += bytes_of(id);
  }
  if (strips_first_space() && bytes.starts_with(' ')) bytes.erase(0, 1);
  return detail::repaired_utf8(std::move(bytes));
}

}  // namespace SOMA_NAMESPACE::text
