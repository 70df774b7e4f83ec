#pragma once
// The functions of memory.hpp.

#include <soma/runtime/memory.hpp>

#include <soma/base/error.hpp>
#include <soma/system/machine.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void prefer_large_pages(void* block, std::size_t bytes) {
  if (bytes >= large_page) system::prefer_large_pages(block, bytes);
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE void* MemoryResource::allocate(std::size_t bytes, std::size_t alignment) const {
  return allocate_(self_, bytes, alignment);
}

SOMA_INLINE void MemoryResource::deallocate(void* block, std::size_t bytes,
                                            std::size_t alignment) const {
  deallocate_(self_, block, bytes, alignment);
}

SOMA_INLINE MemoryUse CountingResource::use() const {
  return {in_use_.load(std::memory_order_relaxed), peak_.load(std::memory_order_relaxed),
          allocations_.load(std::memory_order_relaxed)};
}

SOMA_INLINE void* CountingResource::allocate(std::size_t bytes, std::size_t alignment) {
  void* block = nullptr;
#if SOMA_HAS_EXCEPTIONS
  try {
    block = upstream_.allocate(bytes, aligned(alignment));
  } catch (const std::bad_alloc&) {  // reported below
  }
#else
  block = upstream_.allocate(bytes, aligned(alignment));
#endif
  if (block == nullptr)
    fail(error_id::out_of_memory, "allocate", "size", std::to_string(bytes) + " bytes",
         "no more than the memory resource has left (" + std::to_string(use().bytes_in_use) +
             " bytes in use)");
  const std::size_t now = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::size_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  allocations_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

SOMA_INLINE void CountingResource::deallocate(void* block, std::size_t bytes,
                                              std::size_t alignment) {
  upstream_.deallocate(block, bytes, aligned(alignment));
  in_use_.fetch_sub(bytes, std::memory_order_relaxed);
}

SOMA_INLINE std::size_t CountingResource::aligned(std::size_t alignment) {
  return (std::max)(alignment, memory_alignment);
}

}  // namespace SOMA_NAMESPACE
