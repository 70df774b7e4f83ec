#pragma once
// A clock that only moves forward, for waiting and for measuring. It does not use std::chrono: with
// g++ 13 and newer that header includes <format>, and costs as much as the rest of soma's
// interface.

#include <soma/base/config.hpp>

#include <cstdint>

#include <time.h>

namespace SOMA_NAMESPACE {

// Nanoseconds since some moment in the past.
std::int64_t monotonic_nanoseconds();

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/clock.ipp>
#endif
