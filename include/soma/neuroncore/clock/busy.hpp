#pragma once
// busy_ns(): how long each engine of a core is busy in a timeline.

#include <soma/neuroncore/clock/costs.hpp>
#include <soma/neuroncore/clock/timeline.hpp>

#include <array>
#include <cstddef>
#include <span>

namespace soma::neuroncore {

// Nanoseconds, by Engine; of dma, the mean of the machine's DMA engines. No engine is busy longer
// than the timeline takes. `timeline` is that of the record.
inline std::array<double, engine_count> busy_ns(std::span<const Instruction> record,
                                                const Timeline& timeline, const Machine& machine) {
  std::array<double, engine_count> busy{};
  for (std::size_t i = 0; i < record.size(); ++i) {
    const Engine engine = engine_of(record[i].position.lane);
    const Timed& timed = timeline.instructions[i];
    busy[static_cast<std::size_t>(engine)] +=
        engine == Engine::dma ? record[i].cost.buffers * buffer_ns(record[i], machine) /
                                    static_cast<double>(machine.dma_engines)
                              : timed.end - timed.start;
  }
  return busy;
}

}  // namespace soma::neuroncore
