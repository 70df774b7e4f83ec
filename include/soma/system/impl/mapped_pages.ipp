#pragma once
// The functions of mapped_pages.hpp.

#include <soma/system/mapped_pages.hpp>

#include <soma/base/config.hpp>
#include <soma/system/which.hpp>

#include <cstddef>
#include <cstdint>

#if SOMA_LINUX
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace SOMA_NAMESPACE::system {

SOMA_INLINE std::size_t release_pages([[maybe_unused]] const std::byte* memory,
                                      [[maybe_unused]] std::size_t bytes) noexcept {
#if SOMA_LINUX
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t skipped = (page - start % page) % page;
  const std::size_t whole = bytes < skipped ? 0 : (bytes - skipped) / page * page;
  if (whole == 0) return 0;
  auto* const first = const_cast<std::byte*>(memory) + skipped;
  return ::madvise(first, whole, MADV_DONTNEED) == 0 ? whole : 0;
#else
  return 0;
#endif
}

}  // namespace SOMA_NAMESPACE::system
