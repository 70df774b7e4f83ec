#pragma once
// Scratch: memory for arriving messages that are then added to a buffer.

#include <soma/base/sizes.hpp>
#include <soma/runtime/heap.hpp>

#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE::detail {

// Uninitialised numbers on a heap. Grows and never shrinks, so repeated work allocates nothing.
template <class T>
class Scratch {
 public:
  explicit Scratch(Heap& heap) : heap_(heap) {}
  ~Scratch() { release(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Growing loses the content. Error memory.exhausted.
  std::span<T> get(std::size_t count) {
    if (count > capacity_) {
      release();
      data_ = static_cast<T*>(heap_.allocate(checked_multiply(count, sizeof(T), "Scratch")));
      capacity_ = count;
    }
    return {data_, count};
  }

 private:
  void release() {
    if (data_ != nullptr) heap_.deallocate(data_);
    data_ = nullptr;
    capacity_ = 0;
  }

  Heap& heap_;
  T* data_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace SOMA_NAMESPACE::detail
