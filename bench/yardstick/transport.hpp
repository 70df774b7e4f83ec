// Measures a Communicator: the time of an exchange between neighbours by size, the two numbers of
// the usual model (alpha seconds per message, beta seconds per byte) with the time of adding, and
// all_reduce() both ways. Every rank calls measure_transport(); rank 0 prints a table and then one
// line of JSON, which bench/scaling_model.py reads.
#pragma once

#include <soma/parallel.hpp>
#include <soma/system/clock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace yardstick {

// Seconds of one call, on the rank that is slowest on average: the least of ten batches, each of
// as many calls as move 64 MB or take a tenth of a second, between 2 and 1000.
template <class Action>
double seconds_of(soma::Communicator& communicator, std::size_t bytes, const Action& action) {
  soma::Heap heap(nullptr);
  action();
  communicator.barrier();
  const std::int64_t before = soma::monotonic_nanoseconds();
  action();
  float once = 1e-9F * static_cast<float>(soma::monotonic_nanoseconds() - before);
  soma::all_reduce_max(communicator, heap, {&once, 1});  // all make as many
  const double most = (std::min)(0.1 / double{once}, 0x1p26 / (static_cast<double>(bytes) + 1));
  const auto calls = static_cast<std::size_t>(std::clamp(most, 2.0, 1000.0));
  double least = 1e9;
  for (int batch = 0; batch < 10; ++batch) {
    communicator.barrier();
    const std::int64_t start = soma::monotonic_nanoseconds();
    for (std::size_t i = 0; i < calls; ++i) action();
    communicator.barrier();
    const auto taken = static_cast<double>(soma::monotonic_nanoseconds() - start);
    least = (std::min)(least, taken * 1e-9 / static_cast<double>(calls));
  }
  return least;
}

inline void measure_transport(soma::Communicator& communicator, const std::string& name) {
  soma::Heap heap(nullptr);
  const bool prints = communicator.rank() == 0;
  const int ranks = communicator.size(), neighbour = communicator.rank() ^ 1;
  // Messages so large are agreed upon before they are sent, over most transports: a second alpha.
  constexpr std::size_t most = std::size_t{1} << 24, large = std::size_t{1} << 17;
  std::vector<float> values(most / sizeof(float)), arriving(values);

  if (prints)
    std::printf("%s, %d ranks\n%10s %12s %12s %14s %14s\n", name.c_str(), ranks, "bytes",
                "exchange us", "GB/s each", "doubling us", "halving us");
  double alpha = 0, large_alpha = 0, at_most = 0, at_quarter = 0;
  for (std::size_t bytes : {0u, 64u, 1024u, 4096u, 8192u, 16384u, 32768u, 65536u, 131072u, 262144u,
                            1u << 20, 1u << 22, 1u << 24}) {
    const auto floats = std::span(values).first(bytes / sizeof(float));
    const double exchange = seconds_of(communicator, bytes, [&] {
      communicator.exchange(neighbour, 1, std::as_bytes(floats),
                            std::as_writable_bytes(std::span(arriving).first(floats.size())));
    });
    const double doubling = seconds_of(communicator, 4 * bytes, [&] {
      soma::detail::all_reduce_by_doubling(communicator, heap, floats, soma::detail::add);
    });
    const double halving = seconds_of(communicator, 4 * bytes, [&] {
      soma::reduce_scatter(communicator, heap, floats);
      soma::all_gather(communicator, floats);
    });
    if (bytes <= 64) alpha = bytes == 0 ? exchange : (std::min)(alpha, exchange);
    if (bytes == large) large_alpha = exchange;
    if (bytes == most / 4) at_quarter = exchange;
    if (bytes == most) at_most = exchange;
    if (prints)
      std::printf("%10zu %12.2f %12.2f %14.2f %14.2f\n", bytes, exchange * 1e6,
                  static_cast<double>(bytes) * 1e-9 / exchange, doubling * 1e6, halving * 1e6);
  }
  const double beta = (at_most - at_quarter) / (0.75 * most);
  large_alpha = (std::max)(alpha, large_alpha - beta * static_cast<double>(large));
  const double add =
      seconds_of(communicator, most,
                 [&] { soma::detail::add(values.data(), arriving.data(), values.size()); }) /
      static_cast<double>(most);
  if (prints)
    std::printf(
        "{\"transport\": \"%s\", \"ranks\": %d, \"alpha_seconds\": %.3e, "
        "\"large_alpha_seconds\": %.3e, \"beta_seconds_per_byte\": %.3e, \"add_seconds_per_byte\": "
        "%.3e}\n",
        name.c_str(), ranks, alpha, large_alpha, beta, add);
}

}  // namespace yardstick
