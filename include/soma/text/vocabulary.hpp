#pragma once
// Vocabulary: the pieces of text that a model knows, numbered from 0 in the order of vocab.txt.

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

namespace soma::text {

// A hash of a text that can be continued: the hash of "ab" is add(add(start, 'a'), 'b') (FNV-1a).
struct PieceHash {
  std::uint64_t state = 0xCBF29CE484222325u;
  PieceHash add(char letter) const {
    return {(state ^ static_cast<unsigned char>(letter)) * 0x100000001B3u};
  }
  PieceHash add(std::string_view text) const {
    PieceHash hash = *this;
    for (const char letter : text) hash = hash.add(letter);
    return hash;
  }
};

// Immutable: any number of threads may use it.
class Vocabulary {
 public:
  static constexpr std::int32_t absent = -1;

  // Piece i has id i. `name` is the source in messages. Errors text.vocabulary: no pieces, or a
  // piece that is empty, repeated, contains a line break, or is not UTF-8.
  static Vocabulary from_pieces(std::span<const std::string> pieces,
                                std::string_view name = "memory") {
    return from_pieces(std::vector<std::string_view>(pieces.begin(), pieces.end()), name);
  }
  static Vocabulary from_pieces(const std::vector<std::string_view>& pieces,
                                std::string_view name = "memory") {
    return Vocabulary(pieces, {}, name, true);
  }
  // Reads a list as the usual libraries do: an empty piece is an id without a piece; of two equal
  // pieces, the last is found. Empty pieces at the end are dropped. The ids in `added`, ascending,
  // are tokens that find() finds but that are no pieces of words. Errors text.vocabulary: no
  // pieces, a piece that contains a line break or is not UTF-8, or a token in `added` that is empty
  // or repeated.
  static Vocabulary from_list(const std::vector<std::string_view>& pieces,
                              std::span<const std::size_t> added = {},
                              std::string_view name = "memory") {
    std::span<const std::string_view> listed(pieces);
    while (!listed.empty() && listed.back().empty()) listed = listed.first(listed.size() - 1);
    return Vocabulary(listed, added, name, false);
  }

  // The content of a vocab.txt: one piece a line. Lines may end in CR LF; the last line may lack an
  // end. Errors of from_list.
  static Vocabulary from_text(std::string_view content, std::string_view name = "memory") {
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
  // Reads a file. Errors file.read, and those of from_text.
  static Vocabulary read(std::string_view path) {
    return from_text(read_file("Vocabulary", path), path);
  }

  std::size_t size() const { return ends_.size() - 1; }

  // The text of a piece. Error text.token_id.
  std::string_view piece(std::int32_t id) const {
    if (id < 0 || static_cast<std::size_t>(id) >= size())
      fail(error_id::text_token_id, "Vocabulary", "id", std::to_string(id),
           "0 to " + std::to_string(size() - 1));
    return piece_unchecked(static_cast<std::size_t>(id));
  }

  // The id of the piece or of the added token, or `absent`.
  std::int32_t find(std::string_view piece) const {
    for (const std::int32_t id : added_)
      if (piece_unchecked(static_cast<std::size_t>(id)) == piece) return id;
    return find_joined("", piece, PieceHash().add(piece));
  }
  // True if the id is that of a piece: not of an added token, not without a piece, and not of a
  // piece with a later id.
  bool is_piece(std::int32_t id) const {
    const std::string_view text = piece(id);
    return !text.empty() && find_joined("", text, PieceHash().add(text)) == id;
  }
  // True if the id is that of an added token.
  bool is_added(std::int32_t id) const { return std::ranges::find(added_, id) != added_.end(); }
  bool contains(std::string_view piece) const { return find(piece) != absent; }

  // The same for prefix + text, whose hash the caller has.
  std::int32_t find_joined(std::string_view prefix, std::string_view text, PieceHash hash) const {
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

  // The bytes of the longest piece.
  std::size_t longest() const { return longest_; }

  // The content of a vocab.txt.
  std::string to_text() const {
    std::string text;
    text.reserve(pool_.size() + size());
    for (std::size_t id = 0; id < size(); ++id) text.append(piece_unchecked(id)).push_back('\n');
    return text;
  }

  friend bool operator==(const Vocabulary& a, const Vocabulary& b) {
    return a.pool_ == b.pool_ && a.ends_ == b.ends_ && a.added_ == b.added_;
  }

 private:
  struct Slot {
    std::uint32_t mark = 0;  // half of the hash: most slots of other pieces end here
    std::int32_t id = absent;
  };

  static std::uint64_t mix(PieceHash hash) {
    return (hash.state ^ hash.state >> 32) * 0x9E3779B97F4A7C15u;
  }

  Vocabulary(std::span<const std::string_view> pieces, std::span<const std::size_t> added,
             std::string_view name, bool strict) {
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

  void check_piece(std::string_view piece, const std::string& which, std::string_view name) const {
    if (piece.find_first_of("\r\n") != std::string_view::npos)
      refuse(name, which + " holds a line break");
    if (!is_utf8(piece)) refuse(name, which + " is no UTF-8");
  }
  void append(std::string_view piece) {
    pool_.append(piece);
    ends_.push_back(pool_.size());
  }
  void add(std::string_view piece, std::string_view name, bool strict) {
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

  [[noreturn]] static void refuse(std::string_view name, std::string_view problem) {
    std::string given = soma::quoted(name);
    fail(error_id::text_vocabulary, "Vocabulary", "source", given.append(", ").append(problem),
         "different pieces of UTF-8, one a line");
  }

  std::string_view piece_unchecked(std::size_t id) const {
    return std::string_view(pool_).substr(ends_[id], ends_[id + 1] - ends_[id]);
  }

  std::string pool_;                  // all pieces, end to end
  std::vector<std::size_t> ends_{0};  // piece i lies in [ends_[i], ends_[i + 1])
  std::vector<Slot> slots_;           // open addressing, a power of two
  std::vector<std::int32_t> added_;   // ids of tokens that are no pieces, few
  unsigned shift_ = 60;
  std::size_t longest_ = 0;
};

}  // namespace soma::text
