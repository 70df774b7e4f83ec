#pragma once
// Memory use of the process so far, and memory of the machine.

#include <soma/base/config.hpp>

#include <cstdint>

#include <sys/resource.h>
#include <unistd.h>

namespace SOMA_NAMESPACE {

// The largest resident memory of this process so far, in bytes; 0 if the system does not report it.
std::uint64_t peak_resident_bytes();

// The memory of the machine, in bytes; 0 if the system does not report it.
std::uint64_t physical_memory_bytes();

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/usage.ipp>
#endif
