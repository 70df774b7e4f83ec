#pragma once
// Scratch: memory for messages that arrive beside what they are added to.

#include <soma/base/sizes.hpp>
#include <soma/runtime/heap.hpp>

#include <cstddef>
#include <span>

namespace soma::detail {

// Uninitialised numbers on a heap. Grows, never shrinks: work that repeats asks for nothing.
template <class T>
class Scratch {
 public:
  explicit Scratch(Heap& heap) : heap_(heap) {}
  ~Scratch() { release(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // What it held is lost if it has to grow. Error memory.exhausted.
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

}  // namespace soma::detail
