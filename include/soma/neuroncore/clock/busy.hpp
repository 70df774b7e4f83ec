#pragma once
// busy_ns(): how long each engine of a core is busy in a timeline.

#include <soma/neuroncore/clock/costs.hpp>
#include <soma/neuroncore/clock/timeline.hpp>

#include <array>
#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE::neuroncore {

// Nanoseconds, by Engine; of dma, the mean of the machine's DMA engines. No engine is busy longer
// than the timeline takes. `timeline` is that of the record.
std::array<double, engine_count> busy_ns(std::span<const Instruction> record,
                                         const Timeline& timeline, const Machine& machine);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/clock/impl/busy.ipp>
#endif
