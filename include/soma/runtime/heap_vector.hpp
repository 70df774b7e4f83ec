#pragma once
// HeapVector: a growing array on a context's heap, used by tapes and batches. A std::vector with an
// allocator would do the same, but every unit would pay for it: compilers spend three times as long
// on one.

#include <soma/runtime/heap.hpp>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace SOMA_NAMESPACE {

// Movable, not copyable. Members do the same as those of std::vector. Error memory.exhausted.
template <class T>
class HeapVector {
 public:
  using value_type = T;

  explicit HeapVector(Heap& heap) : heap_(&heap) {}
  // `count` value-initialised elements: numbers are 0.
  HeapVector(std::size_t count, Heap& heap) : heap_(&heap) { resize(count); }
  HeapVector(HeapVector&& other) noexcept
      : heap_(other.heap_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  HeapVector& operator=(HeapVector&& other) noexcept {
    std::swap(heap_, other.heap_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~HeapVector() {
    clear();
    release();
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  void reserve(std::size_t count) {
    if (count > capacity_) move_to(count);
  }
  void resize(std::size_t count) {
    reserve(count);
    while (size_ > count) pop_back();
    for (; size_ < count; ++size_) ::new (static_cast<void*>(data_ + size_)) T();
  }
  // `value` is not an element of this vector: growing would move that element away.
  T& push_back(T value) {
    if (size_ == capacity_) move_to(size_ < 4 ? 8 : 2 * size_);
    return *::new (static_cast<void*>(data_ + size_++)) T(std::move(value));
  }
  // Replaces the content. Trivially copyable types only.
  void assign(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    clear();
    reserve(values.size());
    if (!values.empty()) std::memcpy(data_, values.data(), values.size_bytes());
    size_ = values.size();
  }
  void pop_back() { data_[--size_].~T(); }
  void clear() {
    while (size_ != 0) pop_back();
  }

 private:
  void move_to(std::size_t capacity) {
    static_assert(alignof(T) <= memory_alignment);
    auto* moved =
        static_cast<T*>(heap_->allocate(checked_multiply(capacity, sizeof(T), "HeapVector")));
    if constexpr (std::is_trivially_copyable_v<T>) {
      if (size_ != 0) std::memcpy(moved, data_, size_ * sizeof(T));
    } else {
      for (std::size_t i = 0; i < size_; ++i) {
        ::new (static_cast<void*>(moved + i)) T(std::move(data_[i]));
        data_[i].~T();
      }
    }
    release();
    data_ = moved;
    capacity_ = capacity;
  }
  void release() {
    if (data_ != nullptr) heap_->deallocate(data_);
  }

  Heap* heap_;
  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace SOMA_NAMESPACE
