#pragma once
// Objects that change a tape while they live: one keeps a second thread out, one stops recording,
// one tells which layer errors name.

#include <soma/base/error.hpp>

#include <atomic>
#include <string_view>
#include <utility>

namespace soma::detail {

// Notices a second thread, which would change the recording under the first.
class [[nodiscard]] ExclusiveUse {
 public:
  // Error autograd.two_threads: the flag is set already.
  explicit ExclusiveUse(std::atomic<bool>& in_use) : in_use_(in_use) {
    if (in_use.exchange(true, std::memory_order_acquire))
      fail(error_id::tape_threads, "Tape", "tape", "in use by another thread",
           "a tape for each thread");
  }
  ~ExclusiveUse() { in_use_.store(false, std::memory_order_release); }
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;

 private:
  std::atomic<bool>& in_use_;
};

// Nothing is recorded while one of these lives.
class [[nodiscard]] Paused {
 public:
  explicit Paused(int& count) : count_(count) { ++count_; }
  ~Paused() { --count_; }
  Paused(const Paused&) = delete;
  Paused& operator=(const Paused&) = delete;

 private:
  int& count_;
};

// Errors of operators name this layer; the innermost counts.
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

// run(), whose errors get the name of the layer.
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

}  // namespace soma::detail
