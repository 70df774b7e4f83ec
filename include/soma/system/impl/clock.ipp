#pragma once
// The functions of clock.hpp.

#include <soma/system/clock.hpp>

#include <soma/base/config.hpp>
#include <soma/system/which.hpp>

#include <cstdint>

#if SOMA_WINDOWS
#include <chrono>
#else
#include <time.h>
#endif

namespace SOMA_NAMESPACE {

SOMA_INLINE std::int64_t monotonic_nanoseconds() {
#if SOMA_WINDOWS
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
#else
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
#endif
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::system {

SOMA_INLINE std::int64_t time_of_day() {
#if SOMA_WINDOWS
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
#else
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
#endif
}

}  // namespace SOMA_NAMESPACE::system
