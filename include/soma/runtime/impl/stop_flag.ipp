#pragma once
// The functions of stop_flag.hpp.

#include <soma/runtime/stop_flag.hpp>

#include <soma/base/error.hpp>

#include <atomic>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE void StopFlag::request() noexcept { requested_.store(true, std::memory_order_relaxed); }

SOMA_INLINE void StopFlag::clear() noexcept { requested_.store(false, std::memory_order_relaxed); }

SOMA_INLINE bool StopFlag::requested() const noexcept {
  return requested_.load(std::memory_order_relaxed);
}

SOMA_INLINE void check_stop(const StopFlag* stop, std::string_view operation) {
  if (stop != nullptr && stop->requested())
    fail(error_id::stopped, operation, "the stop flag", "set",
         "a clear one until the work is done");
}

}  // namespace SOMA_NAMESPACE
