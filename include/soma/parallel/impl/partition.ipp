#pragma once
// The functions of partition.hpp.

#include <soma/parallel/partition.hpp>

#include <soma/autograd/row_blocks.hpp>
#include <soma/base/error.hpp>

#include <bit>
#include <cstddef>
#include <string>

namespace SOMA_NAMESPACE {

SOMA_INLINE void check_ranks(int ranks, std::size_t shards) {
  if (ranks < 1 || !std::has_single_bit(static_cast<unsigned>(ranks)) ||
      static_cast<std::size_t>(ranks) > shards)
    fail(error_id::parallel_ranks, "check_ranks", "number of ranks", std::to_string(ranks),
         "a power of two up to the number of shards, " + std::to_string(shards));
}

SOMA_INLINE std::size_t index_of_part(int rank, int ranks) {
  std::size_t index = 0;
  for (int bit = 1; bit < ranks; bit *= 2) index = 2 * index + ((rank & bit) != 0 ? 1 : 0);
  return index;
}

SOMA_INLINE Part owned_shards(std::size_t shards, int rank, int ranks) {
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

SOMA_INLINE Part owned_range(std::size_t count, int rank, int ranks) {
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

SOMA_INLINE Part owned_rows(std::size_t rows, std::size_t row_elements, int rank, int ranks) {
  RowBlock block{0, rows};
  for (int bit = 1; bit < ranks; bit *= 2) {
    const bool upper = (rank & bit) != 0;
    if (block.splits(row_elements))
      block = upper ? block.upper() : block.lower();
    else if (upper)
      block = {block.end(), 0};
  }
  return {block.begin, block.rows};
}

SOMA_INLINE Part EvenPartition::part(int rank, int ranks) const {
  return owned_range(count_, rank, ranks);
}

}  // namespace SOMA_NAMESPACE
