#pragma once
// The functions of clock.hpp.

#include <soma/runtime/clock.hpp>

#include <soma/base/config.hpp>

#include <cstdint>

#include <time.h>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::int64_t monotonic_nanoseconds() {
  timespec now{};
#if defined(CLOCK_MONOTONIC)
  clock_gettime(CLOCK_MONOTONIC, &now);
#else
  timespec_get(&now, TIME_UTC);
#endif
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace SOMA_NAMESPACE
