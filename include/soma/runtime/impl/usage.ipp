#pragma once
// The functions of usage.hpp.

#include <soma/runtime/usage.hpp>

#include <cstdint>

#include <sys/resource.h>
#include <unistd.h>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::uint64_t peak_resident_bytes() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;  // Linux counts in kibibytes
}

SOMA_INLINE std::uint64_t physical_memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(bytes)
             : 0;
}

}  // namespace SOMA_NAMESPACE
