#pragma once
// StopFlag: asks a run to end after the step it is in. May be set from any thread and from a signal
// handler of the host (soma installs none).

#include <atomic>

namespace soma::train {

class StopFlag {
 public:
  void request() noexcept { requested_.store(true, std::memory_order_relaxed); }
  void clear() noexcept { requested_.store(false, std::memory_order_relaxed); }
  bool requested() const noexcept { return requested_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_{false};
  static_assert(std::atomic<bool>::is_always_lock_free);
};

}  // namespace soma::train
