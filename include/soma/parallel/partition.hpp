#pragma once
// Ownership: the shards of a batch that a rank computes, the part of a buffer that it owns after a
// reduce-scatter, and the rows of a parameter that it keeps.

#include <soma/autograd/row_blocks.hpp>
#include <soma/base/error.hpp>

#include <bit>
#include <cstddef>
#include <string>

namespace SOMA_NAMESPACE {

struct Part {
  std::size_t begin = 0, count = 0;

  std::size_t end() const { return begin + count; }
  friend bool operator==(Part, Part) = default;
};

// A sum in the order of the tree needs a power of two of ranks, with at least one shard each. Error
// parallel.ranks.
void check_ranks(int ranks, std::size_t shards);

// The index of a rank's part among the parts of `ranks` ranks, a power of two, in the order of the
// buffer: the rank's bits reversed, see owned_range().
std::size_t index_of_part(int rank, int ranks);

// The shards (a power of two) of one rank: neighbours, so they form a subtree of the tree in which
// shards are added. Errors parallel.ranks, parallel.argument.
Part owned_shards(std::size_t shards, int rank, int ranks);

// The elements of a buffer whose sums a rank has after reduce_scatter(). The buffer is halved once
// for each bit of the rank, the lowest first; a bit of 0 keeps the lower half, which has one
// element more if the number is odd. So the parts lie in the order of the ranks' reversed bits:
//
//   part of 16 elements   0-3     4-7     8-11    12-15
//   its owner among 4     rank 0  rank 2  rank 1  rank 3
//
// Together they are the buffer, without overlap; parts of small buffers may be empty. `ranks` is a
// power of two. Only the lowest log2(ranks) bits of the rank count, so owned_range(count, rank,
// distance) is the range on which a rank still works before the round at that distance.
Part owned_range(std::size_t count, int rank, int ranks);

// The rows of a parameter that a rank keeps if ranks share them: halved as in owned_range(), but
// only along the tree of RowBlock. If a block does not split, its upper half is empty, so rank 0
// has all rows of small parameters.
Part owned_rows(std::size_t rows, std::size_t row_elements, int rank, int ranks);

// The part of a buffer with which each rank ends: one part for each rank, in the order of the
// ranks' reversed bits, together the whole.
class Partition {
 public:
  virtual ~Partition() = default;
  // The parts of all ranks whose lowest log2(ranks) bits equal those of `rank`: neighbours.
  virtual Part part(int rank, int ranks) const = 0;

 protected:
  Partition() = default;
  Partition(const Partition&) = default;
  Partition& operator=(const Partition&) = default;
};

// The parts of owned_range().
class EvenPartition final : public Partition {
 public:
  explicit EvenPartition(std::size_t count = 0) : count_(count) {}
  SOMA_INLINE Part part(int rank, int ranks) const override;

 private:
  std::size_t count_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/partition.ipp>
#endif
