#pragma once
// The functions of waiting.hpp.

#include <soma/runtime/waiting.hpp>

#include <soma/base/config.hpp>
#include <soma/runtime/clock.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace SOMA_NAMESPACE {

SOMA_INLINE void Patience::relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

SOMA_INLINE void Sleeper::wake() {
  if (asleep_.load(std::memory_order_relaxed) == 0 ||
      asleep_.exchange(0, std::memory_order_relaxed) == 0)
    return;
#if defined(SYS_futex)
  syscall(SYS_futex, &asleep_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
#else
  asleep_.notify_one();
#endif
}

SOMA_INLINE void Sleeper::wait() {
#if defined(SYS_futex)
  syscall(SYS_futex, &asleep_, FUTEX_WAIT_PRIVATE, 1, nullptr, nullptr, 0);
#else
  asleep_.wait(1, std::memory_order_relaxed);
#endif
}

}  // namespace SOMA_NAMESPACE
