#pragma once
// Sequencer: the common base of engines: waits for semaphores and signals them.

#include <soma/neuroncore/core_state.hpp>
#include <soma/neuroncore/order/semaphore.hpp>

#include <cstdint>

namespace SOMA_NAMESPACE::neuroncore {

template <class Self, Engine engine>
class Sequencer {
 public:
  explicit Sequencer(CoreState& core) : core_(core) {}
  Sequencer(const Sequencer&) = delete;
  Sequencer& operator=(const Sequencer&) = delete;

  // Later instructions begin once the semaphore has reached the value.
  Self& wait(Semaphore& semaphore, std::uint32_t value, SourceLine source = calling_line()) {
    semaphore.wait(core_, lane, value, source);
    return self();
  }
  // Adds to the semaphore once the last instruction so far has ended.
  Self& signal(Semaphore& semaphore, std::uint32_t amount = 1) {
    semaphore.signal(core_, lane, amount);
    return self();
  }

 protected:
  static constexpr Lane lane = lane_of(engine);
  Self& self() { return static_cast<Self&>(*this); }
  CoreState& core_;
};

}  // namespace SOMA_NAMESPACE::neuroncore
