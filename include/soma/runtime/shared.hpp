#pragma once
// Shared: a handle to an object on a context's heap. Several handles share the object, and the last
// handle destroys it. A handle is one pointer; the reference count lies in the object.

#include <soma/runtime/heap.hpp>

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

namespace SOMA_NAMESPACE {

// The first base class of every shared object.
class Counted {
 public:
  explicit Counted(Heap& heap) : heap_(&heap) {}
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  template <class T>
  friend class Shared;
  Heap* heap_;
  std::atomic<std::size_t> references_{1};
};

// Counting is thread-safe; the object itself is as thread-safe as its class. Empty by default.
template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(std::nullptr_t) {}
  // Makes an object from the heap and the arguments. Error memory.exhausted.
  template <class... Arguments>
  static Shared make(Heap& heap, Arguments&&... arguments) {
    static_assert(alignof(T) <= memory_alignment);
    Shared made;
    made.object_ = ::new (heap.allocate(sizeof(T))) T(heap, std::forward<Arguments>(arguments)...);
    return made;
  }
  Shared(const Shared& other) : object_(other.object_) {
    if (object_ != nullptr) object_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  Shared(Shared&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  // A derived class has a virtual destructor, and T as its first base.
  template <class Derived>
  Shared(Shared<Derived> other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Shared() {
    if (object_ == nullptr || object_->references_.fetch_sub(1, std::memory_order_acq_rel) != 1)
      return;
    Heap* heap = object_->heap_;
    object_->~T();
    heap->deallocate(object_);
  }

  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  friend bool operator==(const Shared& shared, std::nullptr_t) { return shared.object_ == nullptr; }

 private:
  template <class Other>
  friend class Shared;
  T* object_ = nullptr;
};

}  // namespace SOMA_NAMESPACE
