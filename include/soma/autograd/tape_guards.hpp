#pragma once
// Objects that change a tape while they live: one refuses a second thread, one stops recording, and
// one sets the layer that errors name.

#include <soma/base/error.hpp>

#include <atomic>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::detail {

// Detects a second thread, which would change the recording while the first one uses it.
class [[nodiscard]] ExclusiveUse {
 public:
  // Error autograd.two_threads: the flag is already set.
  explicit ExclusiveUse(std::atomic<bool>& in_use);
  ~ExclusiveUse();
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;

 private:
  std::atomic<bool>& in_use_;
};

// The tape does not record while one of these objects lives.
class [[nodiscard]] Paused {
 public:
  explicit Paused(int& count) : count_(count) { ++count_; }
  ~Paused() { --count_; }
  Paused(const Paused&) = delete;
  Paused& operator=(const Paused&) = delete;

 private:
  int& count_;
};

// Errors of operators name this layer; if several are active, the innermost one.
class [[nodiscard]] WithinLayer {
 public:
  WithinLayer(std::string_view& layer, std::string_view name)
      : layer_(layer), before_(std::exchange(layer, name)) {}
  ~WithinLayer() { layer_ = before_; }
  WithinLayer(const WithinLayer&) = delete;
  WithinLayer& operator=(const WithinLayer&) = delete;

 private:
  std::string_view& layer_;
  std::string_view before_;
};

// Calls run(), and adds the name of the layer to its errors.
template <class Run>
auto in_layer([[maybe_unused]] std::string_view layer, const Run& run) {
#if SOMA_HAS_EXCEPTIONS
  if (layer.empty()) return run();
  try {
    return run();
  } catch (const Error& error) {
    fail(error.id(), error.operation() + " of layer " + quoted(layer), error.argument(),
         error.given(), error.wanted());
  }
#else
  return run();
#endif
}

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/tape_guards.ipp>
#endif
