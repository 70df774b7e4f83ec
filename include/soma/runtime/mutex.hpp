#pragma once
// Mutex and Condition: a POSIX mutex and condition variable. Including <mutex> would cost every
// unit that includes soma a tenth of a plain unit, and <condition_variable> more.

#include <soma/base/config.hpp>

#include <pthread.h>

namespace SOMA_NAMESPACE {

class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  class [[nodiscard]] Lock {
   public:
    explicit Lock(Mutex& mutex);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    friend class Condition;

    Mutex& mutex_;
  };

 private:
  friend class Condition;

  pthread_mutex_t handle_ = PTHREAD_MUTEX_INITIALIZER;
};

// Lets threads wait for something that changes under a mutex.
class Condition {
 public:
  Condition() = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  // Returns when holds() is true. The lock is held whenever holds() is called, and on return; while
  // the thread sleeps, others may take it.
  template <class Holds>
  void wait(Mutex::Lock& lock, const Holds& holds) {
    while (!holds()) pthread_cond_wait(&handle_, &lock.mutex_.handle_);
  }
  // Wakes a thread that waits, if there is one: it looks at its condition again.
  void notify_one();

 private:
  pthread_cond_t handle_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/mutex.ipp>
#endif
