#pragma once
// The functions of dma_engines.hpp.

#include <soma/neuroncore/clock/dma_engines.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE double DmaEngines::run(std::uint32_t user, double ready, std::uint32_t buffers,
                                   double each, std::size_t most) {
  const std::size_t all = engines_.size(), count = (std::clamp)(most, std::size_t{1}, all);
  const std::size_t more = buffers % count;
  const auto base = static_cast<double>(buffers / count);
  choose(count == all ? more : count);
  double last = ready;
  for (Engine& engine : engines_) {
    const bool takes_part = count == all || engine.chosen != 0;
    const bool takes_more = engine.chosen != 0 && engine.chosen <= more;
    const double share = takes_part ? base + (takes_more ? 1 : 0) : 0;
    engine.chosen = 0;
    if (share == 0) continue;
    const double busy = share * each;
    engine.free = (std::max)(engine.free, ready) + busy;
    engine.user = user;
    last = (std::max)(last, engine.free);
  }
  first_ = 0;
  for (std::size_t i = 1; i < all; ++i)
    if (engines_[i].free < engines_[first_].free) first_ = i;
  return last;
}

SOMA_INLINE void DmaEngines::choose(std::size_t most) {
  for (std::size_t round = 1; round <= most; ++round) {
    Engine* best = nullptr;
    for (Engine& engine : engines_)
      if (engine.chosen == 0 && (best == nullptr || engine.free < best->free)) best = &engine;
    best->chosen = round;
  }
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail
