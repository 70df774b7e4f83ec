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
                                   double each) {
  const std::size_t count = engines_.size();
  const std::size_t more = buffers % count;
  const auto base = static_cast<double>(buffers / count);
  if (more != 0) choose(more);
  double last = ready;
  for (std::size_t i = 0; i < count; ++i) {
    Engine& engine = engines_[i];
    const double share = more != 0 && engine.chosen ? base + 1 : base;
    engine.chosen = false;
    if (share == 0) continue;
    const double busy = share * each;
    engine.free = (std::max)(engine.free, ready) + busy;
    engine.user = user;
    last = (std::max)(last, engine.free);
  }
  first_ = 0;
  for (std::size_t i = 1; i < count; ++i)
    if (engines_[i].free < engines_[first_].free) first_ = i;
  return last;
}

SOMA_INLINE void DmaEngines::choose(std::size_t most) {
  for (std::size_t round = 0; round < most; ++round) {
    Engine* best = nullptr;
    for (Engine& engine : engines_)
      if (!engine.chosen && (best == nullptr || engine.free < best->free)) best = &engine;
    best->chosen = true;
  }
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail
