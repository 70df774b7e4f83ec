#pragma once
// The functions of machine.hpp.

#include <soma/system/machine.hpp>

#include <soma/base/config.hpp>
#include <soma/system/which.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#if SOMA_WINDOWS
#include <thread>
// As <windows.h> declares it.
extern "C" __declspec(dllimport) int __stdcall GetPhysicallyInstalledSystemMemory(
    unsigned long long*);
#elif SOMA_POSIX
#include <unistd.h>
#endif
#if SOMA_LINUX
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#endif
#if SOMA_GNU_ASSEMBLY && (defined(__x86_64__) || defined(__i386__))
#include <cpuid.h>
#elif defined(_MSC_VER)
#include <intrin.h>
#endif

namespace SOMA_NAMESPACE {

SOMA_INLINE std::uint64_t physical_memory_bytes() {
#if SOMA_WINDOWS
  unsigned long long kibibytes = 0;
  return GetPhysicallyInstalledSystemMemory(&kibibytes) != 0 ? kibibytes * 1024 : 0;
#elif SOMA_POSIX
  const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(bytes)
             : 0;
#else
  return 0;
#endif
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::system {

SOMA_INLINE int processors() {
#if SOMA_WINDOWS
  return (std::max)(1, static_cast<int>(std::thread::hardware_concurrency()));
#elif SOMA_POSIX
#if SOMA_LINUX
  // The kernel refuses a mask smaller than its own, so the mask grows until the call succeeds.
  for (std::size_t most = 1024; most <= 1u << 20; most *= 2) {
    std::vector<unsigned long> mask(most / (8 * sizeof(unsigned long)));
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    const std::size_t bytes = mask.size() * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, set) == 0)
      return (std::max)(1, static_cast<int>(CPU_COUNT_S(bytes, set)));
  }
#endif
  return (std::max)(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
#else
  return 1;
#endif
}

SOMA_INLINE bool cpuid([[maybe_unused]] unsigned leaf, [[maybe_unused]] unsigned subleaf,
                       [[maybe_unused]] std::array<unsigned, 4>& registers) {
#if SOMA_GNU_ASSEMBLY && (defined(__x86_64__) || defined(__i386__))
  return __get_cpuid_count(leaf, subleaf, &registers[0], &registers[1], &registers[2],
                           &registers[3]) != 0;
#elif defined(_MSC_VER) && (defined(_M_X64) || defined(_M_IX86))
  int found[4] = {};
  __cpuid(found, static_cast<int>(leaf & 0x80000000u));
  if (static_cast<unsigned>(found[0]) < leaf) return false;
  __cpuidex(found, static_cast<int>(leaf), static_cast<int>(subleaf));
  for (std::size_t i = 0; i < registers.size(); ++i) registers[i] = static_cast<unsigned>(found[i]);
  return true;
#else
  return false;
#endif
}

SOMA_INLINE bool ask_for_tiles() {
#if SOMA_LINUX && defined(__x86_64__) && defined(SYS_arch_prctl)
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

SOMA_INLINE void prefer_large_pages([[maybe_unused]] void* block,
                                    [[maybe_unused]] std::size_t bytes) {
#if SOMA_LINUX && defined(MADV_HUGEPAGE)
  constexpr std::size_t large_page = std::size_t{2} << 20;
  madvise(block, bytes / large_page * large_page, MADV_HUGEPAGE);
#endif
}

SOMA_INLINE void spin_hint() {
#if SOMA_GNU_ASSEMBLY && (defined(__x86_64__) || defined(__i386__))
  __builtin_ia32_pause();
#elif SOMA_GNU_ASSEMBLY && defined(__aarch64__)
  __asm__ volatile("yield");
#elif defined(_MSC_VER) && (defined(_M_X64) || defined(_M_IX86))
  _mm_pause();
#endif
}

}  // namespace SOMA_NAMESPACE::system
