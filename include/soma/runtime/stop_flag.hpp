#pragma once
// StopFlag: asks long work to end early. The host sets the flag, from any thread or from a signal
// handler of its own (soma installs none). Functions that take a `const StopFlag*` look at the flag
// often enough to notice it within a fraction of a second.

#include <soma/base/error.hpp>

#include <atomic>
#include <string_view>

namespace SOMA_NAMESPACE {

class StopFlag {
 public:
  void request() noexcept;
  void clear() noexcept;
  bool requested() const noexcept;

 private:
  std::atomic<bool> requested_{false};
  static_assert(std::atomic<bool>::is_always_lock_free);
};

// Stops work that has no partial result to return. nullptr: there is no flag. Error
// runtime.stopped.
void check_stop(const StopFlag* stop, std::string_view operation);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/stop_flag.ipp>
#endif
