#pragma once
// The functions of semaphore.hpp.

#include <soma/neuroncore/order/semaphore.hpp>

#include <soma/neuroncore/core_state.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE void Semaphore::signal(CoreState& core, Lane lane, std::uint32_t amount) {
  value_ += amount;
  signals_.push_back({lane, amount, core.order.ended(lane)});
}

SOMA_INLINE void Semaphore::wait(CoreState& core, Lane lane, std::uint32_t value,
                                 SourceLine source) {
  if (value > value_)
    undefined({"wait", source}, "value", std::to_string(value),
              "at most " + std::to_string(value_) +
                  ", the signals so far: the engine would wait for ever");
  // Signals of one lane come in order, those of several lanes in any order. A signal has
  // certainly happened if the value would not be reached without it and its lane's later signals.
  // A transfer has ended only with the last of its parts: each DMA engine adds 1 for its own, in
  // any order, so all but one of them may have come.
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    const bool transfer = engine_of(signals_[i].lane) == Engine::dma;
    std::uint32_t without = value_ - (transfer ? 1 : signals_[i].amount);
    for (std::size_t j = i + 1; j < signals_.size(); ++j)
      if (signals_[j].lane == signals_[i].lane) without -= signals_[j].amount;
    if (without >= value) continue;
    core.order.join(lane, signals_[i].ended);
    const Lane from = signals_[i].lane;
    core.end_transfers(from, signals_[i].ended.all[from]);
  }
}

}  // namespace SOMA_NAMESPACE::neuroncore
