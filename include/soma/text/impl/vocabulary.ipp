#pragma once
// The functions of vocabulary.hpp.

#include <soma/base/contains.hpp>
#include <soma/text/vocabulary.hpp>

#include <soma/base/error.hpp>
#include <soma/text/read_file.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE PieceHash PieceHash::add(char letter) const {
  return {(state ^ static_cast<unsigned char>(letter)) * 0x100000001B3u};
}

SOMA_INLINE PieceHash PieceHash::add(std::string_view text) const {
  PieceHash hash = *this;
  for (const char letter : text) hash = hash.add(letter);
  return hash;
}

SOMA_INLINE Vocabulary Vocabulary::from_pieces(std::span<const std::string> pieces,
                                               std::string_view name) {
  return from_pieces(std::vector<std::string_view>(pieces.begin(), pieces.end()), name);
}

SOMA_INLINE Vocabulary Vocabulary::from_pieces(const std::vector<std::string_view>& pieces,
                                               std::string_view name) {
  return Vocabulary(pieces, {}, name, true);
}

SOMA_INLINE Vocabulary Vocabulary::from_list(const std::vector<std::string_view>& pieces,
                                             std::span<const std::size_t> added,
                                             std::string_view name) {
  std::span<const std::string_view> listed(pieces);
  while (!listed.empty() && listed.back().empty()) listed = listed.first(listed.size() - 1);
  return Vocabulary(listed, added, name, false);
}

SOMA_INLINE Vocabulary Vocabulary::from_text(std::string_view content, std::string_view name) {
  std::vector<std::string_view> pieces;
  while (!content.empty()) {
    const std::size_t line_break = std::min(content.find('\n'), content.size());
    std::string_view line = content.substr(0, line_break);
    if (line.ends_with('\r')) line.remove_suffix(1);
    pieces.push_back(line);
    content.remove_prefix(std::min(line_break + 1, content.size()));
  }
  return from_list(pieces, {}, name);
}

SOMA_INLINE Vocabulary Vocabulary::read(std::string_view path) {
  return from_text(read_file("Vocabulary", path), path);
}

SOMA_INLINE std::size_t Vocabulary::size() const { return ends_.size() - 1; }

SOMA_INLINE std::string_view Vocabulary::piece(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= size())
    fail(error_id::text_token_id, "Vocabulary", "id", std::to_string(id),
         "0 to " + std::to_string(size() - 1));
  return piece_unchecked(static_cast<std::size_t>(id));
}

SOMA_INLINE std::int32_t Vocabulary::find(std::string_view piece) const {
  for (const std::int32_t id : added_)
    if (piece_unchecked(static_cast<std::size_t>(id)) == piece) return id;
  return find_joined("", piece, PieceHash().add(piece));
}

SOMA_INLINE bool Vocabulary::is_piece(std::int32_t id) const {
  const std::string_view text = piece(id);
  return !text.empty() && find_joined("", text, PieceHash().add(text)) == id;
}

SOMA_INLINE bool Vocabulary::is_added(std::int32_t id) const { return soma::contains(added_, id); }

SOMA_INLINE bool Vocabulary::contains(std::string_view piece) const {
  return find(piece) != absent;
}

SOMA_INLINE std::int32_t Vocabulary::find_joined(std::string_view prefix, std::string_view text,
                                                 PieceHash hash) const {
  const std::uint64_t mixed = mix(hash);
  const auto mark = static_cast<std::uint32_t>(mixed);
  for (std::size_t slot = mixed >> shift_;; slot = (slot + 1) & (slots_.size() - 1)) {
    const Slot& known = slots_[slot];
    if (known.id == absent) return absent;
    if (known.mark != mark) continue;
    const std::string_view piece = piece_unchecked(static_cast<std::size_t>(known.id));
    if (piece.size() == prefix.size() + text.size() && piece.starts_with(prefix) &&
        piece.substr(prefix.size()) == text)
      return known.id;
  }
}

SOMA_INLINE std::string Vocabulary::to_text() const {
  std::string text;
  text.reserve(pool_.size() + size());
  for (std::size_t id = 0; id < size(); ++id) text.append(piece_unchecked(id)).push_back('\n');
  return text;
}

SOMA_INLINE std::uint64_t Vocabulary::mix(PieceHash hash) {
  return (hash.state ^ hash.state >> 32) * 0x9E3779B97F4A7C15u;
}

SOMA_INLINE Vocabulary::Vocabulary(std::span<const std::string_view> pieces,
                                   std::span<const std::size_t> added, std::string_view name,
                                   bool strict) {
  if (pieces.empty()) refuse(name, "which has no pieces");
  if (pieces.size() > static_cast<std::size_t>((std::numeric_limits<std::int32_t>::max)()))
    refuse(name, "which has more pieces than 2^31 - 1");
  // At most half of the slots are taken.
  unsigned bits = 4;
  while ((std::size_t{1} << bits) < 2 * pieces.size()) ++bits;
  shift_ = 64 - bits;
  slots_.resize(std::size_t{1} << bits);
  ends_.reserve(pieces.size() + 1);
  for (const std::string_view piece : pieces) {
    if (added.empty() || added.front() != size()) {
      add(piece, name, strict);
      continue;
    }
    added = added.subspan(1);
    const auto id = static_cast<std::int32_t>(size());
    const std::string which = "whose added token " + std::to_string(id);
    if (piece.empty()) refuse(name, which + " is empty");
    if (find(piece) != absent) refuse(name, which + " is there twice");
    check_piece(piece, which, name);
    append(piece);
    added_.push_back(id);
  }
}

SOMA_INLINE void Vocabulary::check_piece(std::string_view piece, const std::string& which,
                                         std::string_view name) const {
  if (piece.find_first_of("\r\n") != std::string_view::npos)
    refuse(name, which + " holds a line break");
  if (!is_utf8(piece)) refuse(name, which + " is no UTF-8");
}

SOMA_INLINE void Vocabulary::append(std::string_view piece) {
  pool_.append(piece);
  ends_.push_back(pool_.size());
}

SOMA_INLINE void Vocabulary::add(std::string_view piece, std::string_view name, bool strict) {
  const std::string which = "whose piece " + std::to_string(size());
  if (piece.empty() && strict) refuse(name, which + " is empty");
  check_piece(piece, which, name);
  if (piece.empty()) return append(piece);
  const PieceHash hash = PieceHash().add(piece);
  const std::int32_t same = find_joined("", piece, hash);
  if (same != absent && strict)
    refuse(name, which + " is " + soma::quoted(piece) + ", as piece " + std::to_string(same));
  std::size_t slot = mix(hash) >> shift_;
  while (slots_[slot].id != same) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = {static_cast<std::uint32_t>(mix(hash)), static_cast<std::int32_t>(size())};
  append(piece);
  longest_ = std::max(longest_, piece.size());
}

SOMA_INLINE void Vocabulary::refuse(std::string_view name, std::string_view problem) {
  std::string given = soma::quoted(name);
  fail(error_id::text_vocabulary, "Vocabulary", "source", given.append(", ").append(problem),
       "different pieces of UTF-8, one a line");
}

SOMA_INLINE std::string_view Vocabulary::piece_unchecked(std::size_t id) const {
  return std::string_view(pool_).substr(ends_[id], ends_[id + 1] - ends_[id]);
}

}  // namespace SOMA_NAMESPACE::text
