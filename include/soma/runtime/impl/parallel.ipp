#pragma once
// The functions of parallel.hpp.

#include <soma/runtime/parallel.hpp>

#include <soma/runtime/context.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/system/threads.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void run_on_host(const Executor& executor, int tasks, void (*task)(void*, int),
                             void* arg) {
  constexpr int most = 64;  // a bit each
  if (tasks > most) return executor.run(executor.self, tasks, task, arg);
  struct Shared {
    void (*task)(void*, int);
    void* arg;
    int tasks;
    std::atomic<std::uint64_t> begun{0};
    void run_unless_begun(int index) {
      const std::uint64_t bit = std::uint64_t{1} << index;
      if ((begun.load(std::memory_order_relaxed) & bit) != 0) return;
      if ((begun.fetch_or(bit, std::memory_order_relaxed) & bit) == 0) task(arg, index);
    }
  } shared{task, arg, tasks};
  executor.run(
      executor.self, tasks,
      [](void* self, int index) {
        Shared& all = *static_cast<Shared*>(self);
        all.run_unless_begun(index);
        for (int other = all.tasks; other-- > 0;) all.run_unless_begun(other);
      },
      &shared);
}

}  // namespace SOMA_NAMESPACE::detail
