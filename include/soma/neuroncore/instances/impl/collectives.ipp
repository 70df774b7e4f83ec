#pragma once
// The functions of collectives.hpp.

#include <soma/neuroncore/instances/collectives.hpp>

#include <soma/base/error.hpp>
#include <soma/neuroncore/instances/instance.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE double bytes_on_the_wire(Collective kind, double bytes, std::size_t ranks) {
  const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return (kind == Collective::all_reduce ? 2 : 1) * share * bytes;
}

SOMA_INLINE double collective_seconds(Collective kind, double bytes, std::size_t ranks,
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

}  // namespace SOMA_NAMESPACE::neuroncore
