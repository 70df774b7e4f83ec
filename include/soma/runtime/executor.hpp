#pragma once
// Executor: how a host lends its threads. Three members, so that any pool can be one; ThreadPool is
// soma's own.

#include <soma/base/config.hpp>

namespace SOMA_NAMESPACE {

// run(self, tasks, task, arg) calls task(arg, 0) ... task(arg, tasks - 1), each exactly once, on
// any threads and in any order, and returns when all have returned. soma asks for at most `width`
// tasks that it wants to run at the same time, never needs two tasks to make progress together, and
// its tasks do not throw (parallel.hpp carries exceptions back). A task may call run again; the
// executor may then run the inner tasks one after another on the calling thread.
//
// Whoever has done its task also does those that nobody has begun, as far as parallel.hpp knows, so
// a task that starts late returns at once. run() still waits for it: where other threads compute on
// the same cores, an executor whose threads take tasks as they come for them is not held up by one
// that the system has taken away, as an executor that gives each thread its task beforehand is.
struct Executor {
  void* self = nullptr;
  int width = 0;
  void (*run)(void* self, int tasks, void (*task)(void* arg, int index), void* arg) = nullptr;
};

inline constexpr int max_threads = 4096;

// An executor that owns its threads, and the function that ends them: end(executor.self).
struct OwnedExecutor {
  Executor executor{};
  void (*end)(void* self) = nullptr;
};

}  // namespace SOMA_NAMESPACE
