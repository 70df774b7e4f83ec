#pragma once
// Callback: a function object on a context's heap, kept until it is called. A std::function would
// do the same, but its header alone is 4 % of what neuroncore.hpp costs a unit.

#include <soma/runtime/heap.hpp>
#include <soma/runtime/shared.hpp>

#include <utility>

namespace SOMA_NAMESPACE {

template <class Signature>
class Callback;

// Copies share the object. Empty by default.
template <class... Arguments>
class Callback<void(Arguments...)> {
 public:
  Callback() = default;
  // Error memory.exhausted.
  template <class Function>
  Callback(Heap& heap, Function function)
      : kept_(Shared<Holder<Function>>::make(heap, std::move(function))) {}

  explicit operator bool() const { return kept_ != nullptr; }
  void operator()(Arguments... arguments) const {
    kept_->call(std::forward<Arguments>(arguments)...);
  }

 private:
  struct Kept : Counted {
    using Counted::Counted;
    virtual ~Kept() = default;
    virtual void call(Arguments... arguments) = 0;
  };
  template <class Function>
  struct Holder final : Kept {
    Holder(Heap& heap, Function f) : Kept(heap), function(std::move(f)) {}
    void call(Arguments... arguments) override { function(std::forward<Arguments>(arguments)...); }
    Function function;
  };
  Shared<Kept> kept_;
};

}  // namespace SOMA_NAMESPACE
