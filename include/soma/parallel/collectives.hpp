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

namespace soma {

// Adds over the ranks in the order of the shard tree, in fp32. Each rank gets its owned_range() of
// the result, which is returned; the rest of the buffer is overwritten.
inline std::span<float> reduce_scatter(Communicator& communicator, Heap& heap,
                                       std::span<float> values) {
  ReduceScatter reduction(communicator, heap, collective_tag);
  reduction.start(values);
  return reduction.finish();
}

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
inline void all_reduce(Communicator& communicator, Heap& heap, std::span<float> values) {
  if (values.size() <= few_floats) {
    detail::all_reduce_by_doubling(communicator, heap, values, detail::add);
  } else {
    reduce_scatter(communicator, heap, values);
    all_gather(communicator, values);
  }
}

// Adds the numbers that each rank has for its own parts (Partition), in the order in which the
// parts lie: ranks that own neighbours are combined first, at the largest distance. If ranks that
// own nothing contribute zeros, this is the tree of RowBlock.
inline void all_reduce_parts(Communicator& communicator, Heap& heap, std::span<double> values) {
  check_ranks(communicator.size(), detail::any_number_of_shards);
  const FloatEnvironment environment;
  detail::Scratch<double> scratch(heap);
  const std::span<double> arriving = scratch.get(values.size());
  for (int distance = communicator.size() / 2; distance > 0; distance /= 2) {
    communicator.exchange(communicator.rank() ^ distance, collective_tag, std::as_bytes(values),
                          std::as_writable_bytes(arriving));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += arriving[i];
  }
}

// The largest values; 0 counts as larger than -0, and a NaN on any rank gives NaN on all.
inline void all_reduce_max(Communicator& communicator, Heap& heap, std::span<float> values) {
  detail::all_reduce_each(communicator, heap, values, [](float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
  });
}

// The bits that any rank has set, such as "a gradient was not finite".
inline void all_reduce_or(Communicator& communicator, Heap& heap, std::span<std::uint64_t> bits) {
  detail::all_reduce_each(communicator, heap, bits,
                          [](std::uint64_t a, std::uint64_t b) { return a | b; });
}

// Sums modulo 2^64, such as numbers of tokens.
inline void all_reduce_sum(Communicator& communicator, Heap& heap,
                           std::span<std::uint64_t> counts) {
  detail::all_reduce_each(communicator, heap, counts,
                          [](std::uint64_t a, std::uint64_t b) { return a + b; });
}

// Sends the root's bytes to all, through a binomial tree: ceil(log2(ranks)) rounds of the whole.
// Any number of ranks. Error parallel.argument: no such root.
inline void broadcast(Communicator& communicator, std::span<std::byte> bytes, int root = 0) {
  const int size = communicator.size();
  if (root < 0 || root >= size)
    fail(error_id::parallel_argument, "broadcast", "root", std::to_string(root),
         "one of " + std::to_string(size) + " ranks");
  // Counted from the root, a rank receives from the rank without its highest bit, and then sends to
  // the ranks with one more bit above.
  const int place = (communicator.rank() - root + size) % size;
  const auto at = [&](int other) { return (other + root) % size; };
  int distance = 1;
  for (; distance <= place; distance *= 2) {
  }
  if (place != 0) communicator.receive(at(place - distance / 2), collective_tag, bytes);
  for (; distance < size - place; distance *= 2)
    communicator.send(at(place + distance), collective_tag, bytes);
}

}  // namespace soma
