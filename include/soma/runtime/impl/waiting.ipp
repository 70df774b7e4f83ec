#pragma once
// The functions of waiting.hpp.

#include <soma/runtime/waiting.hpp>

#include <soma/base/config.hpp>
#include <soma/system/machine.hpp>
#include <soma/system/threads.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace SOMA_NAMESPACE {

SOMA_INLINE void Patience::relax() { system::spin_hint(); }

SOMA_INLINE void Sleeper::wake() {
  if (asleep_.load(std::memory_order_relaxed) == 0 ||
      asleep_.exchange(0, std::memory_order_relaxed) == 0)
    return;
  system::wake(asleep_);
}

SOMA_INLINE void Sleeper::wait() { system::sleep_while(asleep_, 1); }

}  // namespace SOMA_NAMESPACE
