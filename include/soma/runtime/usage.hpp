#pragma once
// What the process has used so far.

#include <cstdint>

#include <sys/resource.h>

namespace soma {

// The most memory that this process has ever had resident, in bytes; 0 if the system does not say.
inline std::uint64_t peak_resident_bytes() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;  // Linux counts in kibibytes
}

}  // namespace soma
