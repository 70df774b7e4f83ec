#pragma once
// Owned: the one owner of an object. A std::unique_ptr without its header, which every unit that
// uses soma would pay for; T may be incomplete where an Owned is passed on.

#include <utility>

namespace soma {

template <class T>
class Owned {
 public:
  Owned() = default;
  // Made with new; Derived derives from T.
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

}  // namespace soma
