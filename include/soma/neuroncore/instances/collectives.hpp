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

namespace SOMA_NAMESPACE::neuroncore {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather };

constexpr std::string_view to_string(Collective collective) {
  constexpr std::string_view names[] = {"all_reduce", "reduce_scatter", "all_gather"};
  return names[static_cast<std::size_t>(collective)];
}

// The bytes that each rank sends for a buffer of `bytes`: the output of an all_gather, the input of
// other operations.
double bytes_on_the_wire(Collective kind, double bytes, std::size_t ranks);

// The estimated time in seconds; 0 for one rank. `ranks` counts cores; more cores than an instance
// has are spread over equal instances. Error neuroncore.instance: ranks are 0, or do not fill whole
// instances.
double collective_seconds(Collective kind, double bytes, std::size_t ranks,
                          const Instance& instance);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/instances/impl/collectives.ipp>
#endif
