// Memory that ends: requests beyond a limit fail at once, also where a sanitizer would stop the
// program instead.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <new>

namespace soma_test {

class LimitedMemory final : public std::pmr::memory_resource {
 public:
  explicit LimitedMemory(std::size_t limit) : limit_(limit) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (bytes > limit_) throw std::bad_alloc();
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::size_t limit_;
};

}  // namespace soma_test
