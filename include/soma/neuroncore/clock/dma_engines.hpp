#pragma once
// DmaEngines: the occupation of a core's DMA engines. Used by the clock.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace soma::neuroncore::detail {

class DmaEngines {
 public:
  explicit DmaEngines(std::size_t count) : engines_((std::max)(count, std::size_t{1})) {}

  // The time when the first of them is free, and the user whose buffers it moves until then.
  double first_free() const { return engines_[first_].free; }
  std::uint32_t first_user() const { return engines_[first_].user; }

  // Deals `buffers` to the engines from `ready` on; engines that are free first get one more.
  // Returns the time when the last buffer has moved.
  double run(std::uint32_t user, double ready, std::uint32_t buffers, double each) {
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

 private:
  struct Engine {
    double free = 0;
    std::uint32_t user = (std::numeric_limits<std::uint32_t>::max)();
    bool chosen = false;
  };

  // Chooses the `most` engines that are free first; of equal ones the lowest.
  void choose(std::size_t most) {
    for (std::size_t round = 0; round < most; ++round) {
      Engine* best = nullptr;
      for (Engine& engine : engines_)
        if (!engine.chosen && (best == nullptr || engine.free < best->free)) best = &engine;
      best->chosen = true;
    }
  }

  std::vector<Engine> engines_;
  std::size_t first_ = 0;
};

}  // namespace soma::neuroncore::detail
