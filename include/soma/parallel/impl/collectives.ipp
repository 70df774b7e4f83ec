#pragma once
// The functions of collectives.hpp.

#include <soma/parallel/collectives.hpp>

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

SOMA_INLINE std::span<float> reduce_scatter(Communicator& communicator, Heap& heap,
                                            std::span<float> values) {
  ReduceScatter reduction(communicator, heap, collective_tag);
  reduction.start(values);
  return reduction.finish();
}

SOMA_INLINE void all_reduce(Communicator& communicator, Heap& heap, std::span<float> values) {
  if (values.size() <= few_floats) {
    detail::all_reduce_by_doubling(communicator, heap, values, detail::add);
  } else {
    reduce_scatter(communicator, heap, values);
    all_gather(communicator, values);
  }
}

SOMA_INLINE void all_reduce_parts(Communicator& communicator, Heap& heap,
                                  std::span<double> values) {
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

SOMA_INLINE void all_reduce_max(Communicator& communicator, Heap& heap, std::span<float> values) {
  detail::all_reduce_each(communicator, heap, values, [](float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
  });
}

SOMA_INLINE void all_reduce_or(Communicator& communicator, Heap& heap,
                               std::span<std::uint64_t> bits) {
  detail::all_reduce_each(communicator, heap, bits,
                          [](std::uint64_t a, std::uint64_t b) { return a | b; });
}

SOMA_INLINE void all_reduce_sum(Communicator& communicator, Heap& heap,
                                std::span<std::uint64_t> counts) {
  detail::all_reduce_each(communicator, heap, counts,
                          [](std::uint64_t a, std::uint64_t b) { return a + b; });
}

SOMA_INLINE void broadcast(Communicator& communicator, std::span<std::byte> bytes, int root) {
  const int size = communicator.size();
  if (root < 0 || root >= size)
    fail(error_id::parallel_argument, "broadcast", "root", std::to_string(root),
         "one of " + std::to_string(size) + " ranks");
  // Counted from the root, a rank receives from the rank without its highest bit, and then sends to
  // the ranks with one more bit above.
  const int index = (communicator.rank() - root + size) % size;
  const auto at = [&](int other) { return (other + root) % size; };
  int distance = 1;
  for (; distance <= index; distance *= 2) {
  }
  if (index != 0) communicator.receive(at(index - distance / 2), collective_tag, bytes);
  for (; distance < size - index; distance *= 2)
    communicator.send(at(index + distance), collective_tag, bytes);
}

}  // namespace SOMA_NAMESPACE
