#pragma once
// This process: its number, its host, and its use of memory.

#include <soma/base/config.hpp>

#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE {

// The largest resident memory of this process so far, in bytes; 0 if the system does not report it.
std::uint64_t peak_resident_bytes();

namespace system {

// Resident memory now, in bytes; 0 if the system does not report it.
std::uint64_t resident_bytes();
// The pages of files among them, such as the program's code; 0 if the system does not say.
std::uint64_t resident_file_bytes();

// 0 where a process has no number.
std::uint64_t process_number();

// "host" where the machine has no name.
std::string host_name();

}  // namespace system
}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/system/impl/process.ipp>
#endif
