#pragma once
// The start time of a process, which distinguishes it from a later process with the same number.
// Linux.

#include <soma/base/config.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

namespace SOMA_NAMESPACE::detail {

// Clock ticks after the system's start (field 22 of /proc/<process>/stat). Not set if there is no
// such process, or if it has ended and is a zombie.
std::optional<std::uint64_t> process_start(std::uint64_t process);

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/io/status/impl/process_start.ipp>
#endif
