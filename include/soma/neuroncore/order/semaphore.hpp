#pragma once
// Semaphore: how engines wait for each other. An engine adds to the semaphore once its last
// instruction has ended; another engine waits until the semaphore has reached a value.

#include <soma/neuroncore/core_state.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace soma::neuroncore {

// Made by Core::semaphore().
class Semaphore {
 public:
  std::uint32_t value() const { return value_; }

  // Used by the engines.
  void signal(CoreState& core, Lane lane, std::uint32_t amount) {
    value_ += amount;
    signals_.push_back({lane, amount, core.order.ended(lane)});
  }
  // Error neuroncore.undefined: the value can never be reached, because earlier instructions do not
  // add that much.
  void wait(CoreState& core, Lane lane, std::uint32_t value) {
    if (value > value_)
      undefined("wait", "value", std::to_string(value),
                "at most " + std::to_string(value_) +
                    ", the signals so far: the engine would wait for ever");
    // Signals of one lane come in order, those of several lanes in any order. A signal has
    // certainly happened if the value would not be reached without it and its lane's later signals.
    for (std::size_t i = 0; i < signals_.size(); ++i) {
      std::uint32_t without = value_;
      for (std::size_t j = i; j < signals_.size(); ++j)
        if (signals_[j].lane == signals_[i].lane) without -= signals_[j].amount;
      if (without >= value) continue;
      core.order.join(lane, signals_[i].ended);
      const Lane from = signals_[i].lane;
      core.end_transfers(from, signals_[i].ended.all[from]);
    }
  }

 private:
  struct Signal {
    Lane lane;
    std::uint32_t amount;
    Order::Ended ended;
  };
  std::vector<Signal> signals_;
  std::uint32_t value_ = 0;
};

}  // namespace soma::neuroncore
