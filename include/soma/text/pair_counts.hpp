#pragma once
// PairCounts: counts pieces and pairs of neighbours in a list of counted words, while the best pair
// becomes one piece again and again. The cost of a merge is limited to its changes: the words that
// contain the pair, and the scores of pairs with either of its pieces.

#include <soma/numeric/portable_math.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

class PairCounts {
 public:
  // `continuing`: the prefix of pieces inside of words.
  explicit PairCounts(std::string continuing) : continuing_(std::move(continuing)) {}
  PairCounts(const PairCounts&) = delete;
  PairCounts& operator=(const PairCounts&) = delete;

  void add_word(std::span<const std::string_view> characters, std::uint64_t count);

  // Counts the pairs after the last word was added. Pairs seen less than `min_count` times never
  // merge.
  void start(std::uint64_t min_count);

  // Merges the best pair; returns false if there is none left. `learnt` is the new piece, or empty
  // if the merged piece already existed.
  bool merge_best(std::string& learnt);

 private:
  using Piece = std::uint32_t;
  struct PieceEntry {
    std::string text;
    std::uint64_t count = 0;
    std::vector<std::uint64_t> partners;  // keys of pairs with this piece, some of them gone
  };
  struct Word {
    std::vector<Piece> pieces;
    std::uint64_t count = 0;
  };
  struct Pair {
    std::uint64_t count = 0;
    std::vector<std::uint32_t> words;  // some of them without the pair by now
  };
  struct Candidate {
    double score;
    Piece left, right;
  };

  static std::uint64_t key(Piece left, Piece right);

  // The increase of the text's log likelihood by the merge, see train_vocabulary.hpp. It uses no
  // sums, and a logarithm that is the same on every machine.
  double score(Piece left, Piece right, std::uint64_t count) const;

  // The piece with that text; true if it is new.
  std::pair<Piece, bool> piece_of(const std::string& text);

  Pair& pair_of(Piece left, Piece right);
  void add_to_pair(Piece left, Piece right, std::uint32_t word);

  void merge(Piece left, Piece right, std::string& learnt);

  void merge_in_word(std::uint32_t w, Piece left, Piece right, Piece merged);

  // Pushes the pairs whose score may have changed: pairs with a piece whose count changed. (A
  // pair's own count changes only together with the count of one of its pieces, or when a merge
  // takes a neighbour away, which changes a piece's count.)
  void push_changed();

  struct Worse {
    const std::vector<PieceEntry>* pieces;
    bool operator()(const Candidate& a, const Candidate& b) const;
  };

  std::string continuing_;
  std::uint64_t min_count_ = 1;
  double total_ = 0;  // characters
  std::vector<PieceEntry> pieces_;
  std::unordered_map<std::string, Piece> by_text_;
  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Pair> pairs_;
  std::vector<Piece> changed_;
  std::priority_queue<Candidate, std::vector<Candidate>, Worse> queue_{Worse{&pieces_}};
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/pair_counts.ipp>
#endif
