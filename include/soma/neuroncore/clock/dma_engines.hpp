#pragma once
// DmaEngines: the occupation of a core's DMA engines. Used by the clock.

#include <soma/base/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

class DmaEngines {
 public:
  explicit DmaEngines(std::size_t count) : engines_((std::max)(count, std::size_t{1})) {}

  // The time when the first of them is free, and the user whose buffers it moves until then.
  double first_free() const { return engines_[first_].free; }
  std::uint32_t first_user() const { return engines_[first_].user; }

  // Deals `buffers` to the `most` engines that are free first, from `ready` on; those that are free
  // first get one more. Returns the time when the last buffer has moved.
  double run(std::uint32_t user, double ready, std::uint32_t buffers, double each,
             std::size_t most = (std::numeric_limits<std::size_t>::max)());

 private:
  struct Engine {
    double free = 0;
    std::uint32_t user = (std::numeric_limits<std::uint32_t>::max)();
    std::size_t chosen = 0;  // in which round, from 1 on
  };

  // Chooses the `most` engines that are free first; of equal ones the lowest.
  void choose(std::size_t most);

  std::vector<Engine> engines_;
  std::size_t first_ = 0;
};

}  // namespace SOMA_NAMESPACE::neuroncore::detail

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/clock/impl/dma_engines.ipp>
#endif
