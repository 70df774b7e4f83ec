#pragma once
// Clocks. They do not use std::chrono: with g++ 13 and newer that header includes <format>, and
// costs as much as the rest of soma's interface.

#include <soma/base/config.hpp>

#include <cstdint>

namespace SOMA_NAMESPACE {

// Nanoseconds since some moment in the past, of a clock that only moves forward: for waiting and
// for measuring.
std::int64_t monotonic_nanoseconds();

namespace system {

// Nanoseconds since 1970, of the clock that also runs while no program does.
std::int64_t time_of_day();

}  // namespace system
}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/system/impl/clock.ipp>
#endif
