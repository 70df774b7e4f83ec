#pragma once
// The functions of collectives.hpp.

#include <soma/neuroncore/instances/collectives.hpp>

#include <soma/base/error.hpp>
#include <soma/neuroncore/instances/instance.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore::detail {

struct MeasuredCollective {
  double bytes, microseconds;
};

// A line through the points; before the first of them its time, behind the last its rate.
SOMA_INLINE double seconds_between(std::span<const MeasuredCollective> points, double bytes) {
  std::size_t next = 0;
  while (next < points.size() && points[next].bytes < bytes) ++next;
  if (next == 0) return points[0].microseconds * 1e-6;
  const MeasuredCollective& before = points[next - 1];
  if (next == points.size()) return before.microseconds * 1e-6 * (bytes / before.bytes);
  const MeasuredCollective& after = points[next];
  const double share = (bytes - before.bytes) / (after.bytes - before.bytes);
  return (before.microseconds + share * (after.microseconds - before.microseconds)) * 1e-6;
}

// From 16 to 32 ranks of one instance.
SOMA_INLINE double seconds_of_many(Collective kind, double bytes) {
  constexpr double kib = 1024, mib = 1024 * kib;
  constexpr MeasuredCollective reduce[] = {
      {8 * kib, 300}, {128 * kib, 574}, {2 * mib, 686}, {32 * mib, 2754}, {512 * mib, 9690}};
  constexpr MeasuredCollective gather[] = {
      {64 * kib, 150}, {512 * kib, 179}, {32 * mib, 2754.0 / 2}, {512 * mib, 9690.0 / 2}};
  return kind == Collective::all_reduce ? seconds_between(reduce, bytes)
                                        : seconds_between(gather, bytes);
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail

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
  if (!instance.published_collectives)
    fail(error_id::neuroncore_instance, "collective_seconds", "instance",
         soma::quoted(instance.name), "one whose collective operations have published times: Trn1");
  // An all-reduce is a reduce-scatter followed by an all-gather.
  const double halves = kind == Collective::all_reduce ? 1 : 0.5;
  if (ranks > cores) return halves * 1300e-6 + bytes_on_the_wire(kind, bytes, ranks) / 52e9;
  const double many = detail::seconds_of_many(kind, bytes);
  if (ranks >= 16) return many;
  const double of_two = (std::max)(58e-6, 34e-6 + bytes_on_the_wire(kind, bytes, 2) / 56.5e9);
  const double share = (std::log2(static_cast<double>(ranks)) - 1) / 3;  // 0: two ranks, 1: sixteen
  return of_two + share * (many - of_two);
}

SOMA_INLINE std::string_view collective_source(std::size_t ranks, const Instance& instance) {
  if (ranks == 2) return "measured with 2 cores";
  if (ranks < 16) return "assumed to lie between the times measured with 2 and with 16 cores";
  if (ranks == 16) return "measured with 16 cores";
  if (ranks <= instance.cores()) return "assumed to be those measured with 16 cores";
  return ranks == 64 ? "measured with 64 cores"
                     : "assumed to grow from those measured with 64 cores";
}

}  // namespace SOMA_NAMESPACE::neuroncore
