#pragma once
// PairMerges: a word's symbols are joined pair by pair, the pair of the lowest rank first and of
// equal ones the leftmost ("byte-pair encoding").

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace SOMA_NAMESPACE::text {

struct PairMerge {
  std::int32_t left = 0, right = 0, result = 0;
};

// A part of a word: a token, and the bytes that it covers.
struct PairSymbol {
  std::int32_t id = 0;
  std::size_t bytes = 0;
};

// Immutable: any number of threads may use it.
class PairMerges {
 public:
  // In the order of their ranks. Of two merges of one pair the last counts.
  explicit PairMerges(const std::vector<PairMerge>& merges = {});

  // Joins until no pair has a merge. n log n, for words of 64 KB and more.
  void join(std::vector<PairSymbol>& word) const;

 private:
  static constexpr std::uint32_t no_rank = ~std::uint32_t{0};
  struct Entry {
    std::uint64_t pair = 0;
    std::uint32_t rank = no_rank;
    std::int32_t result = 0;
  };

  // nullptr: the two stay apart.
  const Entry* find(std::int32_t left, std::int32_t right) const;
  void join_short(std::vector<PairSymbol>& word) const;
  void join_long(std::vector<PairSymbol>& word) const;

  std::vector<Entry> entries_;  // open addressing, a power of two
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/byte_pairs/impl/pair_merges.ipp>
#endif
