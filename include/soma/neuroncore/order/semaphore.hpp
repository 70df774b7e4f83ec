#pragma once
// Semaphore: how engines wait for each other. An engine adds to the semaphore once its last
// instruction has ended; another engine waits until the semaphore has reached a value.

#include <soma/neuroncore/core_state.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

// Made by Core::semaphore().
class Semaphore {
 public:
  std::uint32_t value() const { return value_; }

  // Used by the engines.
  void signal(CoreState& core, Lane lane, std::uint32_t amount);
  // Error neuroncore.undefined: the value can never be reached, because earlier instructions do not
  // add that much.
  void wait(CoreState& core, Lane lane, std::uint32_t value, SourceLine source);

 private:
  struct Signal {
    Lane lane;
    std::uint32_t amount;
    Order::Ended ended;
  };
  std::vector<Signal> signals_;
  std::uint32_t value_ = 0;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/order/impl/semaphore.ipp>
#endif
