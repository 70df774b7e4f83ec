#pragma once
// The time of a collective operation between cores, from the vendor's published measurements of
// nccom-test (AWS Neuron documentation, tools/nccom-test; 10^9 bytes are a GB). Measured are:
//
//   2 ranks     all-reduce: max(58 us, 34 us + bytes / 56.5 GB/s), within 4 %, at 1 MiB within 15 %
//   16 ranks    all-reduce: 300 us to 8 KiB, 574 at 128 KiB, 686 at 2 MiB, 2,754 at 32 MiB, 9,690
//               at 512 MiB
//   32 ranks    all-gather: 150 us to 64 KiB, 179 at 512 KiB. A newer listing has 6 and 23 us.
//   64 ranks    all-reduce: 1300 us + 2 (N - 1) / N bytes / 52 GB/s, within 15 % from 64 KiB on
//
// Between the sizes of one line the time grows linearly. Everything else is an assumption of this
// model: from 3 to 15 ranks the time lies between those of 2 and of 16, linear in log2(ranks); from
// 17 to 32 it is that of 16, because 32 ranks gather small buffers in half of the time in which 16
// reduce them, as the all-gather in an all-reduce does. A reduce-scatter takes as long as an
// all-gather, and both half of an all-reduce's time from 32 MiB on.

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
// instances; bytes are negative or not finite; or no times of the instance are published, which are
// those of Trn1 only.
double collective_seconds(Collective kind, double bytes, std::size_t ranks,
                          const Instance& instance);
// The source of that estimate, for reports: "measured with 16 cores". `ranks` is 2 or more.
std::string_view collective_source(std::size_t ranks, const Instance& instance);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/instances/impl/collectives.ipp>
#endif
