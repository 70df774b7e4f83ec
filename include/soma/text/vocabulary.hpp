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

namespace SOMA_NAMESPACE::text {

// A hash of a text that can be continued: the hash of "ab" is add(add(start, 'a'), 'b') (FNV-1a).
struct PieceHash {
  std::uint64_t state = 0xCBF29CE484222325u;
  PieceHash add(char letter) const;
  PieceHash add(std::string_view text) const;
};

// Immutable: any number of threads may use it.
class Vocabulary {
 public:
  static constexpr std::int32_t absent = -1;

  // Piece i has id i. `name` is the source in messages. Errors text.vocabulary: no pieces, or a
  // piece that is empty, repeated, contains a line break, or is not UTF-8.
  static Vocabulary from_pieces(std::span<const std::string> pieces,
                                std::string_view name = "memory");
  static Vocabulary from_pieces(const std::vector<std::string_view>& pieces,
                                std::string_view name = "memory");
  // Reads a list as the usual libraries do: an empty piece is an id without a piece; of two equal
  // pieces, the last is found. Empty pieces at the end are dropped. The ids in `added`, ascending,
  // are tokens that find() finds but that are no pieces of words. Errors text.vocabulary: no
  // pieces, a piece that contains a line break or is not UTF-8, or a token in `added` that is empty
  // or repeated.
  static Vocabulary from_list(const std::vector<std::string_view>& pieces,
                              std::span<const std::size_t> added = {},
                              std::string_view name = "memory");

  // The content of a vocab.txt: one piece a line. Lines may end in CR LF; the last line may lack an
  // end. Errors of from_list.
  static Vocabulary from_text(std::string_view content, std::string_view name = "memory");
  // Reads a file. Errors file.read, and those of from_text.
  static Vocabulary read(std::string_view path);

  std::size_t size() const;

  // The text of a piece. Error text.token_id.
  std::string_view piece(std::int32_t id) const;

  // The id of the piece or of the added token, or `absent`.
  std::int32_t find(std::string_view piece) const;
  // True if the id is that of a piece: not of an added token, not without a piece, and not of a
  // piece with a later id.
  bool is_piece(std::int32_t id) const;
  // True if the id is that of an added token.
  bool is_added(std::int32_t id) const;
  bool contains(std::string_view piece) const;

  // The same for prefix + text, whose hash the caller has.
  std::int32_t find_joined(std::string_view prefix, std::string_view text, PieceHash hash) const;

  // The bytes of the longest piece.
  std::size_t longest() const { return longest_; }

  // The content of a vocab.txt.
  std::string to_text() const;

  friend bool operator==(const Vocabulary& a, const Vocabulary& b) {
    return a.pool_ == b.pool_ && a.ends_ == b.ends_ && a.added_ == b.added_;
  }

 private:
  struct Slot {
    std::uint32_t mark = 0;  // half of the hash: most slots of other pieces end here
    std::int32_t id = absent;
  };

  static std::uint64_t mix(PieceHash hash);

  Vocabulary(std::span<const std::string_view> pieces, std::span<const std::size_t> added,
             std::string_view name, bool strict);

  void check_piece(std::string_view piece, const std::string& which, std::string_view name) const;
  void append(std::string_view piece);
  void add(std::string_view piece, std::string_view name, bool strict);

  [[noreturn]] static void refuse(std::string_view name, std::string_view problem);

  std::string_view piece_unchecked(std::size_t id) const;

  std::string pool_;                  // all pieces, end to end
  std::vector<std::size_t> ends_{0};  // piece i lies in [ends_[i], ends_[i + 1])
  std::vector<Slot> slots_;           // open addressing, a power of two
  std::vector<std::int32_t> added_;   // ids of tokens that are no pieces, few
  unsigned shift_ = 60;
  std::size_t longest_ = 0;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/vocabulary.ipp>
#endif
