#pragma once
// Owned: the only owner of an object. It replaces std::unique_ptr, whose header every unit that
// uses soma would pay for. T may be incomplete in code that only passes an Owned on.

#include <soma/base/config.hpp>

#include <utility>

namespace SOMA_NAMESPACE {

template <class T>
class Owned {
 public:
  Owned() = default;
  // Makes the object with new; Derived derives from T.
  template <class Derived, class... Arguments>
  static Owned make(Arguments&&... arguments) {
    Owned made;
    made.object_ = new Derived(std::forward<Arguments>(arguments)...);
    made.end_ = [](T* object) { delete static_cast<Derived*>(object); };
    return made;
  }
  Owned(Owned&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), end_(other.end_) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(end_, other.end_);
    return *this;
  }
  ~Owned() {
    if (object_ != nullptr) end_(object_);
  }

  explicit operator bool() const { return object_ != nullptr; }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }

 private:
  T* object_ = nullptr;
  void (*end_)(T*) = nullptr;
};

}  // namespace SOMA_NAMESPACE
