#pragma once
// Memory of a context: the host's resource, counted. Tensors, arenas and scratch space come from
// here, so a host can bound and watch what soma uses.

#include <soma/base/error.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <string>

namespace soma {

// Every block is aligned to at least a cache line, which is also the widest vector.
inline constexpr std::size_t memory_alignment = 64;

struct MemoryUse {
  std::size_t bytes_in_use = 0;
  std::size_t peak_bytes = 0;     // the largest bytes_in_use so far
  std::uint64_t allocations = 0;  // how many blocks were ever asked for
};

// Passes requests on to another resource and counts them. Thread-safe where that resource is.
// Error memory.exhausted where it has nothing left (with -fno-exceptions the resource itself ends
// the program).
class CountingResource final : public std::pmr::memory_resource {
 public:
  explicit CountingResource(std::pmr::memory_resource* upstream) : upstream_(upstream) {}

  MemoryUse use() const {
    return {in_use_.load(std::memory_order_relaxed), peak_.load(std::memory_order_relaxed),
            allocations_.load(std::memory_order_relaxed)};
  }

 private:
  static std::size_t aligned(std::size_t alignment) {
    return (std::max)(alignment, memory_alignment);
  }

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
#if SOMA_HAS_EXCEPTIONS
    void* block = nullptr;
    try {
      block = upstream_->allocate(bytes, aligned(alignment));
    } catch (const std::bad_alloc&) {
      fail(error_id::out_of_memory, "allocate", "size", std::to_string(bytes) + " bytes",
           "no more than the memory resource has left (" + std::to_string(use().bytes_in_use) +
               " bytes in use)");
    }
#else
    void* block = upstream_->allocate(bytes, aligned(alignment));
#endif
    const std::size_t now = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::size_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
    allocations_.fetch_add(1, std::memory_order_relaxed);
    return block;
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    upstream_->deallocate(block, bytes, aligned(alignment));
    in_use_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::pmr::memory_resource* upstream_;
  std::atomic<std::size_t> in_use_{0}, peak_{0};
  std::atomic<std::uint64_t> allocations_{0};
};

}  // namespace soma
