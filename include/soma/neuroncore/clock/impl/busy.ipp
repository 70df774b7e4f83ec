#pragma once
// The functions of busy.hpp.

#include <soma/neuroncore/clock/busy.hpp>

#include <soma/neuroncore/clock/costs.hpp>
#include <soma/neuroncore/clock/timeline.hpp>

#include <array>
#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE std::array<double, engine_count> busy_ns(std::span<const Instruction> record,
                                                     const Timeline& timeline,
                                                     const Machine& machine) {
  std::array<double, engine_count> busy{};
  for (std::size_t i = 0; i < record.size(); ++i) {
    const Engine engine = engine_of(record[i].position.lane);
    const Timed& timed = timeline.instructions[i];
    busy[static_cast<std::size_t>(engine)] +=
        engine == Engine::dma ? record[i].cost.buffers * buffer_ns(record[i], machine) /
                                    static_cast<double>(machine.dma_engines)
                              : timed.end - timed.start;
    busy[static_cast<std::size_t>(Engine::gpsimd)] += descriptors_ns(record[i], machine);
  }
  return busy;
}

}  // namespace SOMA_NAMESPACE::neuroncore
