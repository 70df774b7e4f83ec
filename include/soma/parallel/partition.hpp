#pragma once
// Who has what: which shards of a batch a rank computes, and which part of a buffer it owns after a
// reduce-scatter.

#include <soma/base/error.hpp>

#include <bit>
#include <cstddef>
#include <string>

namespace soma {

struct Part {
  std::size_t begin = 0, count = 0;

  std::size_t end() const { return begin + count; }
  friend bool operator==(Part, Part) = default;
};

// A sum in the order of the tree needs a power of two of ranks, with at least one shard each. Error
// parallel.ranks.
inline void check_ranks(int ranks, std::size_t shards) {
  if (ranks < 1 || !std::has_single_bit(static_cast<unsigned>(ranks)) ||
      static_cast<std::size_t>(ranks) > shards)
    fail(error_id::parallel_ranks, "check_ranks", "number of ranks", std::to_string(ranks),
         "a power of two up to the number of shards, " + std::to_string(shards));
}

// The shards (a power of two of them) of one rank: neighbours, hence a subtree of the tree in which
// shards meet. Errors parallel.ranks, parallel.argument.
inline Part owned_shards(std::size_t shards, int rank, int ranks) {
  if (!std::has_single_bit(shards))
    fail(error_id::parallel_argument, "owned_shards", "shards", std::to_string(shards),
         "a power of two");
  check_ranks(ranks, shards);
  if (rank < 0 || rank >= ranks)
    fail(error_id::parallel_argument, "owned_shards", "rank", std::to_string(rank),
         "one of " + std::to_string(ranks));
  const std::size_t each = shards / static_cast<std::size_t>(ranks);
  return {static_cast<std::size_t>(rank) * each, each};
}

// The elements of a buffer that a rank has the sum of after reduce_scatter(): the buffer is halved
// once for each bit of the rank, the lowest first, and a bit of 0 keeps the lower half, which has
// one element more if their number is odd. So the parts lie in the order of the ranks' reversed
// bits:
//
//   part of 16 elements   0-3     4-7     8-11    12-15
//   its owner among 4     rank 0  rank 2  rank 1  rank 3
//
// Together they are the buffer, without overlap; those of small buffers may be empty. `ranks` is a
// power of two. Of the rank's bits only the lowest log2(ranks) count, so owned_range(count, rank,
// distance) is what a rank still works on before the round at that distance.
inline Part owned_range(std::size_t count, int rank, int ranks) {
  Part part{0, count};
  for (int bit = 1; bit < ranks; bit *= 2) {
    const std::size_t lower = part.count - part.count / 2;
    if ((rank & bit) == 0)
      part.count = lower;
    else
      part = {part.begin + lower, part.count - lower};
  }
  return part;
}

}  // namespace soma
