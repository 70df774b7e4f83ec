#pragma once
// Collective operations. Every rank calls the same function, in the same order, with buffers of the
// same size, on the thread that uses the communicator. Each call returns when this rank's part is
// done. Scratch memory comes from `heap`, a context's (Context::heap()).
//
// Errors of all functions: parallel.ranks (not a power of two; broadcast() takes any number), and
// those of Communicator. After an error the content of the buffers is undefined.

#include <soma/parallel/communicator.hpp>
#include <soma/parallel/partition.hpp>
#include <soma/parallel/reduce_scatter.hpp>
#include <soma/parallel/scratch.hpp>
#include <soma/runtime/float_environment.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace SOMA_NAMESPACE {

// Adds over the ranks in the order of the shard tree, in fp32. Each rank gets its owned_range() of
// the result, which is returned; the rest of the buffer is overwritten.
std::span<float> reduce_scatter(Communicator& communicator, Heap& heap, std::span<float> values);

// Sends each rank's owned_range() of the buffer to all ranks, so that all have the whole. For any
// trivially copyable type.
template <class T>
void all_gather(Communicator& communicator, std::span<T> values) {
  AllGather gathering(communicator, collective_tag);
  gathering.start(values);
  gathering.finish();
}

namespace detail {

// Recursive doubling: at distances 1, 2, 4, ... a rank exchanges the whole buffer with rank ^
// distance, and combine(own, theirs, count) merges the two in `own`. The tree is the same as in
// reduce_scatter(), in half as many rounds as that and all_gather(), but with at least log2(ranks)
// / 2 times the bytes.
template <class T, class Combine>
void all_reduce_by_doubling(Communicator& communicator, Heap& heap, std::span<T> values,
                            const Combine& combine) {
  check_ranks(communicator.size(), any_number_of_shards);
  Scratch<T> scratch(heap);
  const std::span<T> arriving = scratch.get(values.size());
  for (int distance = 1; distance < communicator.size(); distance *= 2) {
    communicator.exchange(communicator.rank() ^ distance, collective_tag, std::as_bytes(values),
                          std::as_writable_bytes(arriving));
    combine(values.data(), arriving.data(), values.size());
  }
}

// The same with a function of two values, whose order must not matter.
template <class T, class Combine>
void all_reduce_each(Communicator& communicator, Heap& heap, std::span<T> values,
                     const Combine& combine) {
  all_reduce_by_doubling(communicator, heap, values,
                         [&](T* own, const T* theirs, std::size_t count) {
                           for (std::size_t i = 0; i < count; ++i)
                             own[i] = combine(own[i], theirs[i]);
                         });
}

}  // namespace detail

// Up to this number of floats all_reduce() uses the method with fewer messages, above it the method
// with fewer bytes: about where both take the same time, between threads as well as between
// processes of one machine (bench/yardstick/transport.cpp).
inline constexpr std::size_t few_floats = 16384;

// Adds over the ranks in the order of the shard tree, in fp32; every rank gets all sums, with the
// same bits in either method.
void all_reduce(Communicator& communicator, Heap& heap, std::span<float> values);

// Adds the numbers that each rank has for its own parts (Partition), in the order in which the
// parts lie: ranks that own neighbours are combined first, at the largest distance. If ranks that
// own nothing contribute zeros, this is the tree of RowBlock.
void all_reduce_parts(Communicator& communicator, Heap& heap, std::span<double> values);

// The largest values; 0 counts as larger than -0, and a NaN on any rank gives NaN on all.
void all_reduce_max(Communicator& communicator, Heap& heap, std::span<float> values);

// The bits that any rank has set, such as "a gradient was not finite".
void all_reduce_or(Communicator& communicator, Heap& heap, std::span<std::uint64_t> bits);

// Sums modulo 2^64, such as numbers of tokens.
void all_reduce_sum(Communicator& communicator, Heap& heap, std::span<std::uint64_t> counts);

// Sends the root's bytes to all, through a binomial tree: ceil(log2(ranks)) rounds of the whole.
// Any number of ranks. Error parallel.argument: no such root.
void broadcast(Communicator& communicator, std::span<std::byte> bytes, int root = 0);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/collectives.ipp>
#endif
