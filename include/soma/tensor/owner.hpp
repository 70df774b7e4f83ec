#pragma once
// Owner: an object that keeps adopted elements alive until the last tensor that shares them has
// ended.

#include <soma/base/config.hpp>

#include <type_traits>
#include <utility>

namespace SOMA_NAMESPACE {

// Made from any movable object: a std::shared_ptr, a std::vector, a file.
class Owner {
 public:
  Owner() = default;  // empty: the caller keeps the elements alive
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Owner>) Owner(T&& keeper)
      : keeper_(new std::remove_cvref_t<T>(std::forward<T>(keeper))),
        end_([](void* held) { delete static_cast<std::remove_cvref_t<T>*>(held); }) {}
  Owner(Owner&& other) noexcept
      : keeper_(std::exchange(other.keeper_, nullptr)), end_(other.end_) {}
  Owner& operator=(Owner&& other) noexcept;
  ~Owner();

  // The object that was moved in, of its type without const and reference; nullptr if empty.
  void* get() const { return keeper_; }

 private:
  void* keeper_ = nullptr;
  void (*end_)(void*) = nullptr;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/tensor/impl/owner.ipp>
#endif
