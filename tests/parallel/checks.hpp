// Requirements on every transport, as functions that all ranks call: threads and sockets in
// collectives_test.cpp, processes in mpi_test.cpp. The functions throw their failures, because
// Catch2's assertions belong to one thread.
#pragma once

#include <soma/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace soma_test {

inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

inline constexpr std::size_t shards = 8;

// A well-mixed number for each place.
inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a << 32) + b + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// A shard's gradient, of wildly different magnitudes: which numbers are lost in a sum depends on
// the order.
inline std::vector<float> leaf(std::size_t shard, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t random = mixed(shard, i);
    const float fraction = static_cast<float>(random & 0xFFFFFF) * 0x1p-24f + 0.5f;
    const int exponent = static_cast<int>((random >> 24) % 41) - 20;
    values[i] = std::ldexp((random >> 63) != 0 ? -fraction : fraction, exponent);
  }
  return values;
}

// The tree over some neighbouring shards, in plain code.
inline std::vector<float> tree(std::size_t first, std::size_t number, std::size_t count) {
  if (number == 1) return leaf(first, count);
  std::vector<float> left = tree(first, number / 2, count);
  const std::vector<float> right = tree(first + number / 2, number / 2, count);
  for (std::size_t i = 0; i < count; ++i) left[i] += right[i];
  return left;
}

inline std::vector<float> own_subtree(const soma::Communicator& communicator, std::size_t count) {
  const soma::Part own = soma::owned_shards(shards, communicator.rank(), communicator.size());
  return tree(own.begin, own.count, count);
}

template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

inline const std::vector<std::size_t>& counts() {
  static const std::vector<std::size_t> all{
      0, 1, 2, 3, 5, 7, 8, 17, 63, 1000, 4097, soma::few_floats, soma::few_floats + 1, 30011};
  return all;
}

// Sums have the bits of the tree, whichever way they go.
inline void check_sums(soma::Communicator& communicator, soma::Heap& heap) {
  for (const std::size_t count : counts()) {
    const std::vector<float> wanted = tree(0, shards, count);
    const std::string of = " of " + std::to_string(count) + " elements";

    std::vector<float> values = own_subtree(communicator, count);
    const std::span<float> own = soma::reduce_scatter(communicator, heap, values);
    const soma::Part part = soma::owned_range(count, communicator.rank(), communicator.size());
    require(own.data() == values.data() + part.begin && own.size() == part.count,
            "reduce_scatter: another part" + of);
    require(same_bits<float>(own, std::span(wanted).subspan(part.begin, part.count)),
            "reduce_scatter: other bits" + of);

    // Nothing but the own part is needed.
    std::vector<float> gathered(count, std::numeric_limits<float>::quiet_NaN());
    std::ranges::copy(own, gathered.begin() + static_cast<std::ptrdiff_t>(part.begin));
    soma::all_gather(communicator, std::span(gathered));
    require(same_bits<float>(gathered, wanted), "all_gather: other bits" + of);

    std::vector<float> doubled = own_subtree(communicator, count);
    soma::detail::all_reduce_by_doubling(communicator, heap, std::span(doubled), soma::detail::add);
    require(same_bits<float>(doubled, wanted), "recursive doubling: other bits" + of);

    std::vector<float> reduced = own_subtree(communicator, count);
    soma::all_reduce(communicator, heap, reduced);
    require(same_bits<float>(reduced, wanted), "all_reduce: other bits" + of);
  }
}

// Sums values of the ranks' own parts: neighbouring parts are added first.
inline void check_sums_of_parts(soma::Communicator& communicator, soma::Heap& heap) {
  // Sums that show in which order they were made.
  const auto of_rank = [](int rank, std::size_t i) {
    if (rank < 2) return rank == 0 ? 0x1p53 : -0x1p53;
    return static_cast<double>(i + 1) * static_cast<double>(2 * rank + 1);
  };
  // The sum over the ranks whose bits below `bit` equal `low`.
  const std::function<double(int, int, std::size_t)> sum = [&](int low, int bit, std::size_t i) {
    return bit == communicator.size() ? of_rank(low, i)
                                      : sum(low, 2 * bit, i) + sum(low + bit, 2 * bit, i);
  };
  std::vector<double> values;
  for (std::size_t i = 0; i < 5; ++i) values.push_back(of_rank(communicator.rank(), i));
  soma::all_reduce_parts(communicator, heap, values);
  for (std::size_t i = 0; i < values.size(); ++i)
    require(values[i] == sum(0, 1, i), "all_reduce_parts: element " + std::to_string(i));
}

inline void check_gather_of_other_types(soma::Communicator& communicator) {
  std::vector<std::uint16_t> halves(101);
  const soma::Part own = soma::owned_range(101, communicator.rank(), communicator.size());
  for (std::size_t i = own.begin; i < own.end(); ++i)
    halves[i] = static_cast<std::uint16_t>(i * 7 + 1);
  soma::all_gather(communicator, std::span(halves));
  for (std::size_t i = 0; i < halves.size(); ++i)
    require(halves[i] == i * 7 + 1, "all_gather of 16 bits: element " + std::to_string(i));
}

// Eight buckets on their way at once; every rank starts and polls them in another order.
inline void check_many_in_flight(soma::Communicator& communicator, soma::Heap& heap) {
  constexpr std::size_t buckets = 8;
  std::vector<std::vector<float>> values;
  std::vector<std::unique_ptr<soma::ReduceScatter>> reductions;
  std::vector<std::unique_ptr<soma::AllGather>> gatherings;
  const auto size_of = [](std::size_t bucket) { return bucket * bucket * 301; };
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    const int tag = static_cast<int>(bucket);
    values.push_back(own_subtree(communicator, size_of(bucket)));
    reductions.push_back(std::make_unique<soma::ReduceScatter>(communicator, heap, tag));
    gatherings.push_back(std::make_unique<soma::AllGather>(communicator, tag));
  }
  const auto rank = static_cast<std::uint64_t>(communicator.rank());
  std::vector<std::size_t> order(buckets);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::uint64_t shuffles = 0;
  const auto shuffle = [&] {
    std::ranges::sort(order, {}, [&](std::size_t b) { return mixed(rank * 64 + b, shuffles); });
    ++shuffles;
  };
  for (int step = 0; step < 3; ++step) {  // the same objects again
    for (std::size_t bucket = 0; bucket < buckets; ++bucket)
      values[bucket] = own_subtree(communicator, size_of(bucket));
    shuffle();
    for (const std::size_t bucket : order) reductions[bucket]->start(values[bucket]);
    std::vector<bool> gathering(buckets), done(buckets);
    for (std::size_t left = buckets; left != 0;) {
      shuffle();
      for (const std::size_t bucket : order) {
        if (!gathering[bucket] && reductions[bucket]->advance()) {
          gatherings[bucket]->start(std::span(values[bucket]));
          gathering[bucket] = true;
        }
        if (gathering[bucket] && !done[bucket] && gatherings[bucket]->advance()) {
          done[bucket] = true;
          --left;
        }
      }
      std::this_thread::yield();
    }
    for (std::size_t bucket = 0; bucket < buckets; ++bucket)
      require(same_bits<float>(values[bucket], tree(0, shards, size_of(bucket))),
              "bucket " + std::to_string(bucket) + " has other bits");
  }
}

inline void check_order_free(soma::Communicator& communicator, soma::Heap& heap) {
  const int rank = communicator.rank(), size = communicator.size();
  const bool last = rank == size - 1;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> largest{static_cast<float>(rank), -1.0f - static_cast<float>(rank),
                             last ? 0.0f : -0.0f, last ? nan : 1.0f, rank == 0 ? infinity : 2.0f};
  soma::all_reduce_max(communicator, heap, largest);
  require(largest[0] == static_cast<float>(size - 1) && largest[1] == -1.0f && largest[2] == 0.0f &&
              !std::signbit(largest[2]) && std::isnan(largest[3]) && largest[4] == infinity,
          "all_reduce_max");

  std::vector<std::uint64_t> bits{std::uint64_t{1} << rank, 0};
  soma::all_reduce_or(communicator, heap, bits);
  require(bits[0] == (std::uint64_t{1} << size) - 1 && bits[1] == 0, "all_reduce_or");

  const auto ranks = static_cast<std::uint64_t>(size);
  std::vector<std::uint64_t> numbers{static_cast<std::uint64_t>(rank) + (std::uint64_t{1} << 60),
                                     1};
  soma::all_reduce_sum(communicator, heap, numbers);
  require(numbers[0] == ranks * (ranks - 1) / 2 + ranks * (std::uint64_t{1} << 60) &&
              numbers[1] == ranks,
          "all_reduce_sum");
}

inline void check_broadcast(soma::Communicator& communicator) {
  for (int root = 0; root < communicator.size(); ++root)
    for (const std::size_t count : {0u, 1u, 100'003u}) {
      std::vector<std::byte> bytes(count);
      const auto wanted = [&](std::size_t i) {
        return static_cast<std::byte>(i * 31 + static_cast<std::size_t>(root));
      };
      if (communicator.rank() == root)
        for (std::size_t i = 0; i < count; ++i) bytes[i] = wanted(i);
      soma::broadcast_checked(communicator, bytes, "weights", root);
      for (std::size_t i = 0; i < count; ++i)
        require(bytes[i] == wanted(i), "broadcast: byte " + std::to_string(i));
    }
}

inline soma::Record settings(const soma::Communicator& communicator) {
  soma::Record record("settings");
  record.set("seed", std::uint64_t{7});
  record.set("rate", 0.1);
  if (communicator.rank() % 2 == 0) record.set("bf16 products", "dot");
  record.set("portable", true);
  if (communicator.rank() % 2 == 1) record.set("bf16 products", "dot");  // another order
  return record;
}

inline void check_agreement(soma::Communicator& communicator) {
  soma::Record record = settings(communicator);
  soma::agree(communicator, record);
  if (communicator.size() == 1) return;
  const int other = communicator.size() - 1;
  const auto refused = [&](const std::string& wanted) {
    std::string message = "no error";
    try {
      soma::agree(communicator, record);
    } catch (const soma::Error& error) {
      message = error.what();
    }
    require(message == wanted, "agree says '" + message + "' and not '" + wanted + "'");
  };
  const std::string rank = " of rank " + std::to_string(other);
  if (communicator.rank() == other) record.set("rate", std::nextafter(0.1, 1.0));
  refused("settings: \"rate\"" + rank +
          " is 0.10000000000000002, wanted 0.1 as on rank 0 [parallel.mismatch]");
  record = settings(communicator);
  if (communicator.rank() == other) record.set("another", 1);
  refused("settings: \"another\"" + rank +
          " is 1, wanted missing as on rank 0 [parallel.mismatch]");
  record = settings(communicator);
  if (communicator.rank() != other) record.set("another", 1);
  refused("settings: \"another\"" + rank +
          " is missing, wanted 1 as on rank 0 [parallel.mismatch]");
  soma::agree(communicator, settings(communicator));
}

// Messages of one tag keep their order; those of several are waited for in any.
inline void check_messages(soma::Communicator& communicator) {
  const int rank = communicator.rank(), size = communicator.size();
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  if (size == 1) return communicator.barrier();
  std::vector<std::vector<int>> sent, received;
  std::vector<soma::Request> sends, receives;
  for (int i = 0; i < 12; ++i) {
    sent.emplace_back(static_cast<std::size_t>(i) * 1000, rank * 100 + i);
    received.emplace_back(static_cast<std::size_t>(i) * 1000);
  }
  for (std::size_t i = 0; i < 12; ++i) {
    const int tag = static_cast<int>(i % 3);
    receives.push_back(
        communicator.start_receive(previous, tag, std::as_writable_bytes(std::span(received[i]))));
    sends.push_back(communicator.start_send(next, tag, std::as_bytes(std::span(sent[i]))));
  }
  for (std::size_t i = 12; i-- > 0;) {
    communicator.wait(receives[i]);
    require(communicator.test(receives[i]), "a message is over twice");
  }
  for (soma::Request& request : sends) communicator.wait(request);
  for (std::size_t i = 0; i < 12; ++i)
    require(received[i] == std::vector<int>(i * 1000, previous * 100 + static_cast<int>(i)),
            "message " + std::to_string(i));
  communicator.barrier();
}

inline void check_all(soma::Communicator& communicator, soma::Heap& heap) {
  check_messages(communicator);
  check_sums(communicator, heap);
  check_sums_of_parts(communicator, heap);
  check_gather_of_other_types(communicator);
  check_many_in_flight(communicator, heap);
  check_order_free(communicator, heap);
  check_broadcast(communicator);
  check_agreement(communicator);
  communicator.barrier();
}

}  // namespace soma_test
