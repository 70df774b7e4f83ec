#pragma once
// How a thread waits for another one: Patience spins, Sleeper sleeps. Neither gives the core away
// (sched_yield): where others compute on it, each time may cost a time slice of the scheduler, some
// milliseconds. std::atomic's wait() does: libstdc++ yields four times before it sleeps.

#include <soma/base/config.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/machine.hpp>
#include <soma/system/threads.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace SOMA_NAMESPACE {

// How long a thread spins for what another one does, before it sleeps: half as long after each wait
// that did not succeed, twice as long after one that did. Where other threads compute on the same
// cores, what one waits for may be a time slice away, and spinning for it wins nothing.
class Patience {
 public:
  // False where it did not come in time.
  template <class Done>
  bool spin_until(Done done) {
    if (done()) return true;
    const std::int64_t start = monotonic_nanoseconds();
    for (std::int64_t waited = 0; waited < limit_; waited = monotonic_nanoseconds() - start)
      for (int round = 0; round < 32; ++round) {
        relax();
        if (done()) {
          limit_ = (std::min)(limit_ * 2, most);
          return true;
        }
      }
    limit_ = (std::max)(limit_ / 2, least);
    return false;
  }
  // The longest time that the next wait spins, in nanoseconds.
  std::int64_t limit() const { return limit_; }

 private:
  // At least longer than a fork-join (two cache-line transfers) and the gap between most kernels;
  // at most about what it costs to wake a worker where cores are virtual: it starts 50 microseconds
  // late, and the caller spends 20.
  static constexpr std::int64_t least = 20'000, most = 100'000;

  static void relax();

  std::int64_t limit_ = most;
};

// A place where one thread sleeps until another wakes it.
class Sleeper {
 public:
  // Sleeps until wake(); returns early now and then, so the caller asks again what it waits for.
  // Only one thread at a time. `ready()` is asked once more before: it has to read what the waker
  // writes through a read-modify-write of a variable that the waker changes, or reads, in the same
  // way before wake(). Of two such operations one comes second, and its thread sees what the other
  // wrote: the sleeper that it need not sleep, or the waker that somebody sleeps.
  template <class Ready>
  void sleep_unless(const Ready& ready) {
    asleep_.store(1, std::memory_order_relaxed);
    if (!ready()) wait();
    asleep_.store(0, std::memory_order_relaxed);
  }
  // Costs one load where nobody sleeps.
  void wake();

 private:
  void wait();

  std::atomic<std::uint32_t> asleep_{0};
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/waiting.ipp>
#endif
