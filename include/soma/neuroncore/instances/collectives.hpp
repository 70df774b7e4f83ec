#pragma once
// The time of a collective operation between cores, estimated by formulas that were fitted to the
// vendor's published measurements of nccom-test (AWS Neuron documentation, tools/nccom-test; 10^9
// bytes are a GB).
//
//   2 ranks     max(58 us, 34 us + bytes / 56.5 GB/s)         within 4 %, at 1 MiB within 15 %
//   64 ranks    1300 us + 2 (N - 1) / N bytes / 52 GB/s       within 15 % from 64 KiB on
//   others of one instance: 5 us of a launch, hops of 1.5 us, and the bytes at 53.7 GB/s (50 GiB/s,
//   the lower end of what was measured): an assumption of this model

#include <soma/base/error.hpp>
#include <soma/neuroncore/instances/instance.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace soma::neuroncore {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather };

constexpr std::string_view to_string(Collective collective) {
  constexpr std::string_view names[] = {"all_reduce", "reduce_scatter", "all_gather"};
  return names[static_cast<std::size_t>(collective)];
}

// The bytes that each rank sends for a buffer of `bytes`: the output of an all_gather, the input of
// other operations.
inline double bytes_on_the_wire(Collective kind, double bytes, std::size_t ranks) {
  const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return (kind == Collective::all_reduce ? 2 : 1) * share * bytes;
}

// The estimated time in seconds; 0 for one rank. `ranks` counts cores; more cores than an instance
// has are spread over equal instances. Error neuroncore.instance: ranks are 0, or do not fill whole
// instances.
inline double collective_seconds(Collective kind, double bytes, std::size_t ranks,
                                 const Instance& instance) {
  const std::size_t cores = instance.cores();
  if (cores == 0 || ranks == 0 || (ranks > cores && ranks % cores != 0))
    fail(error_id::neuroncore_instance, "collective_seconds", "ranks", std::to_string(ranks),
         "1 to " + std::to_string(cores) + ", the cores of " + std::string(instance.name) +
             ", or a multiple of them");
  if (!(bytes >= 0) || !std::isfinite(bytes))
    fail(error_id::neuroncore_instance, "collective_seconds", "bytes", std::to_string(bytes),
         "a number of bytes");
  if (ranks == 1) return 0;
  const double sent = bytes_on_the_wire(kind, bytes, ranks);
  // An all-reduce is a reduce-scatter followed by an all-gather: each of the two has half of its
  // hops.
  const double halves = kind == Collective::all_reduce ? 1 : 0.5;
  if (ranks == 2) return (std::max)(58e-6, 34e-6 + sent / 56.5e9);
  if (ranks > cores) return halves * 1300e-6 + sent / 52e9;
  const double hops = 2 * std::log2(static_cast<double>(ranks));
  return 5e-6 + halves * hops * 1.5e-6 + sent / 53.7e9;
}

}  // namespace soma::neuroncore
