#pragma once
// The functions of pair_merges.hpp.

#include <soma/text/byte_pairs/pair_merges.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

inline constexpr std::size_t short_word = 32;  // symbols that are looked through again and again

inline std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}
inline std::size_t pair_slot(std::uint64_t pair, std::size_t mask) {
  const std::uint64_t mixed = pair * 0x9E3779B97F4A7C15u;
  return static_cast<std::size_t>(mixed ^ mixed >> 32) & mask;
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE PairMerges::PairMerges(const std::vector<PairMerge>& merges)
    : entries_(std::bit_ceil(2 * merges.size() + 2)) {
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t pair = detail::pair_key(merges[rank].left, merges[rank].right);
    std::size_t slot = detail::pair_slot(pair, mask);
    while (entries_[slot].rank != no_rank && entries_[slot].pair != pair) slot = (slot + 1) & mask;
    entries_[slot] = {pair, static_cast<std::uint32_t>(rank), merges[rank].result};
  }
}

SOMA_INLINE auto PairMerges::find(std::int32_t left, std::int32_t right) const -> const Entry* {
  const std::size_t mask = entries_.size() - 1;
  const std::uint64_t pair = detail::pair_key(left, right);
  for (std::size_t slot = detail::pair_slot(pair, mask);; slot = (slot + 1) & mask) {
    const Entry& entry = entries_[slot];
    if (entry.rank == no_rank) return nullptr;
    if (entry.pair == pair) return &entry;
  }
}

SOMA_INLINE void PairMerges::join(std::vector<PairSymbol>& word) const {
  if (word.size() <= detail::short_word) return join_short(word);
  join_long(word);
}

SOMA_INLINE void PairMerges::join_short(std::vector<PairSymbol>& word) const {
  // Entry i is the merge of the symbols i and i + 1.
  std::array<const Entry*, detail::short_word> merges{};
  std::size_t count = word.size();
  for (std::size_t i = 0; i + 1 < count; ++i) merges[i] = find(word[i].id, word[i + 1].id);
  while (true) {
    std::size_t best = count;
    std::uint32_t lowest = no_rank;
    for (std::size_t i = 0; i + 1 < count; ++i)
      if (merges[i] != nullptr && merges[i]->rank < lowest) {
        lowest = merges[i]->rank;
        best = i;
      }
    if (best == count) break;
    word[best] = {merges[best]->result, word[best].bytes + word[best + 1].bytes};
    --count;
    for (std::size_t i = best + 1; i < count; ++i) {
      word[i] = word[i + 1];
      merges[i] = merges[i + 1];
    }
    if (best != 0) merges[best - 1] = find(word[best - 1].id, word[best].id);
    if (best + 1 < count) merges[best] = find(word[best].id, word[best + 1].id);
  }
  word.resize(count);
}

SOMA_INLINE void PairMerges::join_long(std::vector<PairSymbol>& word) const {
  // A list of the symbols that are left, and a heap of the pairs that were neighbours once. A pair
  // that is none any more has another merge, or none.
  const std::size_t count = word.size();
  std::vector<std::size_t> next(count), before(count);
  using Candidate = std::tuple<std::uint32_t, std::size_t>;  // rank, place of the left symbol
  std::vector<Candidate> found;
  const auto merge_at = [&](std::size_t i) -> const Entry* {
    return next[i] == count ? nullptr : find(word[i].id, word[next[i]].id);
  };
  for (std::size_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    before[i] = i - 1;
    if (i + 1 == count) break;
    if (const Entry* merge = merge_at(i); merge != nullptr) found.emplace_back(merge->rank, i);
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap(std::greater<>(),
                                                                              std::move(found));
  constexpr std::size_t gone = 0;  // bytes of a symbol that went into its left neighbour
  while (!heap.empty()) {
    const auto [rank, i] = heap.top();
    heap.pop();
    if (word[i].bytes == gone) continue;
    const Entry* merge = merge_at(i);
    if (merge == nullptr || merge->rank != rank) continue;
    const std::size_t right = next[i];
    word[i] = {merge->result, word[i].bytes + word[right].bytes};
    word[right].bytes = gone;
    next[i] = next[right];
    if (next[i] != count) {
      before[next[i]] = i;
      if (const Entry* after = merge_at(i); after != nullptr) heap.emplace(after->rank, i);
    }
    if (i != 0)
      if (const Entry* left = merge_at(before[i]); left != nullptr)
        heap.emplace(left->rank, before[i]);
  }
  const auto is_gone = [](const PairSymbol& symbol) { return symbol.bytes == gone; };
  word.erase(std::remove_if(word.begin(), word.end(), is_gone), word.end());
}

}  // namespace SOMA_NAMESPACE::text
