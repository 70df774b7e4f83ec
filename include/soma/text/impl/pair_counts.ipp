#pragma once
// The functions of pair_counts.hpp.

#include <soma/text/pair_counts.hpp>

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

SOMA_INLINE void PairCounts::add_word(std::span<const std::string_view> characters,
                                      std::uint64_t count) {
  Word word{.pieces = {}, .count = count};
  for (std::size_t i = 0; i < characters.size(); ++i) {
    std::string text = i == 0 ? std::string() : continuing_;
    word.pieces.push_back(piece_of(text.append(characters[i])).first);
    pieces_[word.pieces.back()].count += count;
    total_ += static_cast<double>(count);
  }
  words_.push_back(std::move(word));
}

SOMA_INLINE void PairCounts::start(std::uint64_t min_count) {
  min_count_ = std::max<std::uint64_t>(min_count, 1);
  for (std::uint32_t w = 0; w < words_.size(); ++w)
    for (std::size_t i = 1; i < words_[w].pieces.size(); ++i)
      add_to_pair(words_[w].pieces[i - 1], words_[w].pieces[i], w);
  for (std::uint32_t piece = 0; piece < pieces_.size(); ++piece) changed_.push_back(piece);
  push_changed();
}

SOMA_INLINE bool PairCounts::merge_best(std::string& learnt) {
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

SOMA_INLINE std::uint64_t PairCounts::key(Piece left, Piece right) {
  return std::uint64_t{left} << 32 | right;
}

SOMA_INLINE double PairCounts::score(Piece left, Piece right, std::uint64_t count) const {
  const auto times = static_cast<double>(count);
  const double expected =
      static_cast<double>(pieces_[left].count) * static_cast<double>(pieces_[right].count);
  return times * portable_log(times * total_ / expected);
}

SOMA_INLINE auto PairCounts::piece_of(const std::string& text) -> std::pair<Piece, bool> {
  const auto [entry, is_new] = by_text_.emplace(text, static_cast<Piece>(pieces_.size()));
  if (is_new) pieces_.push_back({.text = text, .count = 0, .partners = {}});
  return {entry->second, is_new};
}

SOMA_INLINE auto PairCounts::pair_of(Piece left, Piece right) -> Pair& {
  const std::uint64_t name = key(left, right);
  const auto [entry, is_new] = pairs_.try_emplace(name);
  if (is_new) {
    pieces_[left].partners.push_back(name);
    if (left != right) pieces_[right].partners.push_back(name);
  }
  return entry->second;
}

SOMA_INLINE void PairCounts::add_to_pair(Piece left, Piece right, std::uint32_t word) {
  Pair& pair = pair_of(left, right);
  pair.count += words_[word].count;
  if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
}

SOMA_INLINE void PairCounts::merge(Piece left, Piece right, std::string& learnt) {
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

SOMA_INLINE void PairCounts::merge_in_word(std::uint32_t w, Piece left, Piece right, Piece merged) {
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

SOMA_INLINE void PairCounts::push_changed() {
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

SOMA_INLINE bool PairCounts::Worse::operator()(const Candidate& a, const Candidate& b) const {
  if (a.score != b.score) return a.score < b.score;
  if (a.left != b.left) return (*pieces)[a.left].text > (*pieces)[b.left].text;
  return a.right != b.right && (*pieces)[a.right].text > (*pieces)[b.right].text;
}

}  // namespace SOMA_NAMESPACE::text
