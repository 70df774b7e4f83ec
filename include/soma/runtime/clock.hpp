#pragma once
// A clock that only moves forward, for waiting and for measuring. It does not use std::chrono: with
// g++ 13 and newer that header includes <format>, and costs as much as the rest of soma's
// interface.

#include <soma/base/config.hpp>

#include <cstdint>

#include <time.h>

namespace soma {

// Nanoseconds since some moment in the past.
inline std::int64_t monotonic_nanoseconds() {
  timespec now{};
#if defined(CLOCK_MONOTONIC)
  clock_gettime(CLOCK_MONOTONIC, &now);
#else
  timespec_get(&now, TIME_UTC);
#endif
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace soma
