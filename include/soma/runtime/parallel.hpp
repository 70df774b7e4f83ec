#pragma once
// parallel(): the only way in which work reaches an executor. It sets the floating-point
// environment on every thread that runs a task, and carries exceptions back to the caller,
// whichever executor the host provides.

#include <soma/runtime/context.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/system/threads.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>

namespace SOMA_NAMESPACE {

namespace detail {

// Runs tasks over a host's executor, of which a thread may be taken away by the system before it
// begins with its task: a thread that has done its own takes, from the end, what nobody has begun.
// Nothing like that for many tasks, among which an executor balances by itself.
void run_on_host(const Executor& executor, int tasks, void (*task)(void*, int), void* arg);

}  // namespace detail

// Calls function(0) ... function(tasks - 1), in any order on any threads, and returns when all have
// returned. If some tasks throw, the others still run, and this function rethrows the exception of
// the lowest index: the choice does not depend on timing.
template <class Function>
void parallel(Context& context, int tasks, Function&& function) {
  if (tasks <= 1) {
    const FloatEnvironment environment;
    if (tasks == 1) function(0);
    return;
  }
  struct Call {
    std::remove_reference_t<Function>* function;
    Mutex mutex;
    int failed_index = -1;
    std::exception_ptr exception;
  } call;
  call.function = &function;
  const auto task = [](void* arg, int index) {
    const FloatEnvironment environment;
    Call& shared = *static_cast<Call*>(arg);
#if SOMA_HAS_EXCEPTIONS
    try {
      (*shared.function)(index);
    } catch (...) {
      const Mutex::Lock lock(shared.mutex);
      if (shared.failed_index < 0 || index < shared.failed_index) {
        shared.failed_index = index;
        shared.exception = std::current_exception();
      }
    }
#else
    (*shared.function)(index);
#endif
  };
  const Executor& executor = context.executor();
  if (context.executor_is_default())
    executor.run(executor.self, tasks, task, &call);
  else
    detail::run_on_host(executor, tasks, task, &call);
#if SOMA_HAS_EXCEPTIONS
  if (call.exception) std::rethrow_exception(call.exception);
#endif
}

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/parallel.ipp>
#endif
