#pragma once
// The functions of process.hpp.

#include <soma/system/process.hpp>

#include <soma/base/config.hpp>
#include <soma/system/which.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#if SOMA_WINDOWS
#include <process.h>
// As <windows.h> and <psapi.h> declare them; those would bring hundreds of macros.
struct _PROCESS_MEMORY_COUNTERS;
extern "C" __declspec(dllimport) void* __stdcall GetCurrentProcess(void);
extern "C" __declspec(dllimport) int __stdcall K32GetProcessMemoryInfo(
    void*, struct _PROCESS_MEMORY_COUNTERS*, unsigned long);
extern "C" __declspec(dllimport) int __stdcall GetComputerNameA(char*, unsigned long*);
#elif SOMA_POSIX
#include <sys/resource.h>
#include <unistd.h>
#endif

namespace SOMA_NAMESPACE {

#if SOMA_WINDOWS

namespace system::detail {

// The layout of PROCESS_MEMORY_COUNTERS.
struct MemoryCounters {
  unsigned long bytes, page_faults;
  std::size_t peak, now, rest[6];
};

inline MemoryCounters memory_counters() {
  MemoryCounters counters{};
  counters.bytes = sizeof counters;
  K32GetProcessMemoryInfo(GetCurrentProcess(),
                          reinterpret_cast<struct _PROCESS_MEMORY_COUNTERS*>(&counters),
                          sizeof counters);
  return counters;
}

}  // namespace system::detail

SOMA_INLINE std::uint64_t peak_resident_bytes() { return system::detail::memory_counters().peak; }

#elif SOMA_POSIX

SOMA_INLINE std::uint64_t peak_resident_bytes() {
#if SOMA_LINUX
  constexpr std::uint64_t unit = 1024;
#else
  constexpr std::uint64_t unit = 1;  // macOS counts bytes
#endif
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<std::uint64_t>(usage.ru_maxrss) * unit;
}

#else

SOMA_INLINE std::uint64_t peak_resident_bytes() { return 0; }

#endif

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::system {

#if SOMA_WINDOWS

SOMA_INLINE std::uint64_t resident_bytes() { return detail::memory_counters().now; }

SOMA_INLINE std::uint64_t resident_file_bytes() { return 0; }

SOMA_INLINE std::uint64_t process_number() { return static_cast<std::uint64_t>(::_getpid()); }

SOMA_INLINE std::string host_name() {
  std::array<char, 256> name{};
  unsigned long size = name.size();
  return GetComputerNameA(name.data(), &size) != 0 ? std::string(name.data(), size) : "host";
}

#elif SOMA_POSIX

namespace detail {

struct ResidentBytes {
  std::uint64_t all = 0, of_files = 0;
};

inline ResidentBytes resident() {
  ResidentBytes bytes;
#if SOMA_LINUX
  unsigned long long total = 0, all = 0, of_files = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    if (std::fscanf(file, "%llu %llu %llu", &total, &all, &of_files) == 3)
      bytes = {all * page, of_files * page};
    std::fclose(file);
  }
#endif
  return bytes;
}

}  // namespace detail

SOMA_INLINE std::uint64_t resident_bytes() { return detail::resident().all; }

SOMA_INLINE std::uint64_t resident_file_bytes() { return detail::resident().of_files; }

SOMA_INLINE std::uint64_t process_number() { return static_cast<std::uint64_t>(::getpid()); }

SOMA_INLINE std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

#else

SOMA_INLINE std::uint64_t resident_bytes() { return 0; }

SOMA_INLINE std::uint64_t resident_file_bytes() { return 0; }

SOMA_INLINE std::uint64_t process_number() { return 0; }

SOMA_INLINE std::string host_name() { return "host"; }

#endif

}  // namespace SOMA_NAMESPACE::system
