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

namespace soma::text {

class PairCounts {
 public:
  // `continuing`: the prefix of pieces inside of words.
  explicit PairCounts(std::string continuing) : continuing_(std::move(continuing)) {}
  PairCounts(const PairCounts&) = delete;
  PairCounts& operator=(const PairCounts&) = delete;

  void add_word(std::span<const std::string_view> characters, std::uint64_t count) {
    Word word{.pieces = {}, .count = count};
    for (std::size_t i = 0; i < characters.size(); ++i) {
      std::string text = i == 0 ? std::string() : continuing_;
      word.pieces.push_back(piece_of(text.append(characters[i])).first);
      pieces_[word.pieces.back()].count += count;
      total_ += static_cast<double>(count);
    }
    words_.push_back(std::move(word));
  }

  // Counts the pairs after the last word was added. Pairs seen less than `min_count` times never
  // merge.
  void start(std::uint64_t min_count) {
    min_count_ = std::max<std::uint64_t>(min_count, 1);
    for (std::uint32_t w = 0; w < words_.size(); ++w)
      for (std::size_t i = 1; i < words_[w].pieces.size(); ++i)
        add_to_pair(words_[w].pieces[i - 1], words_[w].pieces[i], w);
    for (std::uint32_t piece = 0; piece < pieces_.size(); ++piece) changed_.push_back(piece);
    push_changed();
  }

  // Merges the best pair; returns false if there is none left. `learnt` is the new piece, or empty
  // if the merged piece already existed.
  bool merge_best(std::string& learnt) {
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const auto pair = pairs_.find(key(best.left, best.right));
      if (pair == pairs_.end() || score(best.left, best.right, pair->second.count) != best.score)
        continue;  // it has changed since, and was pushed again
      merge(best.left, best.right, learnt);
      return true;
    }
    return false;
  }

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

  static std::uint64_t key(Piece left, Piece right) { return std::uint64_t{left} << 32 | right; }

  // The increase of the text's log likelihood by the merge, see train_vocabulary.hpp. It uses no
  // sums, and a logarithm that is the same on every machine.
  double score(Piece left, Piece right, std::uint64_t count) const {
    const auto times = static_cast<double>(count);
    const double expected =
        static_cast<double>(pieces_[left].count) * static_cast<double>(pieces_[right].count);
    return times * portable_log(times * total_ / expected);
  }

  // The piece with that text; true if it is new.
  std::pair<Piece, bool> piece_of(const std::string& text) {
    const auto [place, is_new] = by_text_.emplace(text, static_cast<Piece>(pieces_.size()));
    if (is_new) pieces_.push_back({.text = text, .count = 0, .partners = {}});
    return {place->second, is_new};
  }

  Pair& pair_of(Piece left, Piece right) {
    const std::uint64_t name = key(left, right);
    const auto [place, is_new] = pairs_.try_emplace(name);
    if (is_new) {
      pieces_[left].partners.push_back(name);
      if (left != right) pieces_[right].partners.push_back(name);
    }
    return place->second;
  }
  void add_to_pair(Piece left, Piece right, std::uint32_t word) {
    Pair& pair = pair_of(left, right);
    pair.count += words_[word].count;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
  }

  void merge(Piece left, Piece right, std::string& learnt) {
    std::string_view tail = pieces_[right].text;
    tail.remove_prefix(continuing_.size());
    const auto [merged, is_new] = piece_of(pieces_[left].text + std::string(tail));
    learnt = is_new ? pieces_[merged].text : std::string();
    const std::vector<std::uint32_t> words = std::move(pairs_[key(left, right)].words);
    changed_.assign({left, right, merged});
    for (const std::uint32_t w : words) merge_in_word(w, left, right, merged);
    pairs_.erase(key(left, right));
    push_changed();
  }

  void merge_in_word(std::uint32_t w, Piece left, Piece right, Piece merged) {
    Word& word = words_[w];
    const std::vector<Piece> before = word.pieces;
    std::vector<Piece>& after = word.pieces;
    after.clear();
    std::uint64_t merges = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const bool here = i + 1 < before.size() && before[i] == left && before[i + 1] == right;
      after.push_back(here ? merged : before[i]);
      if (!here) continue;
      ++i;
      ++merges;
    }
    if (merges == 0) return;
    for (std::size_t i = 1; i < before.size(); ++i)
      pair_of(before[i - 1], before[i]).count -= word.count;
    for (std::size_t i = 1; i < after.size(); ++i) {
      // Pairs without the new piece existed before, and already list the word.
      if (after[i - 1] == merged || after[i] == merged)
        add_to_pair(after[i - 1], after[i], w);
      else
        pair_of(after[i - 1], after[i]).count += word.count;
    }
    pieces_[left].count -= merges * word.count;
    pieces_[right].count -= merges * word.count;
    pieces_[merged].count += merges * word.count;
  }

  // Pushes the pairs whose score may have changed: pairs with a piece whose count changed. (A
  // pair's own count changes only together with the count of one of its pieces, or when a merge
  // takes a neighbour away, which changes a piece's count.)
  void push_changed() {
    for (const Piece piece : changed_) {
      std::vector<std::uint64_t>& partners = pieces_[piece].partners;
      const auto gone = [&](std::uint64_t name) {
        const auto pair = pairs_.find(name);
        if (pair == pairs_.end()) return true;
        if (pair->second.count == 0) {
          pairs_.erase(pair);
          return true;
        }
        const auto left = static_cast<Piece>(name >> 32), right = static_cast<Piece>(name);
        if (pair->second.count >= min_count_)
          queue_.push({score(left, right, pair->second.count), left, right});
        return false;
      };
      partners.erase(std::remove_if(partners.begin(), partners.end(), gone), partners.end());
    }
    changed_.clear();
  }

  struct Worse {
    const std::vector<PieceEntry>* pieces;
    bool operator()(const Candidate& a, const Candidate& b) const {
      if (a.score != b.score) return a.score < b.score;
      if (a.left != b.left) return (*pieces)[a.left].text > (*pieces)[b.left].text;
      return a.right != b.right && (*pieces)[a.right].text > (*pieces)[b.right].text;
    }
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

}  // namespace soma::text
