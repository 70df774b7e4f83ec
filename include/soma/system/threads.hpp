#pragma once
// Threads, and what they wait with. On POSIX these are its own mutexes and condition variables:
// including <mutex> would cost every unit that includes soma a tenth of a plain unit, and
// <condition_variable> more. On Windows they are the standard library's. Without threads (WASI)
// nobody else can hold a mutex, and no thread starts.

#include <soma/base/config.hpp>
#include <soma/system/which.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

#if SOMA_WINDOWS
#include <condition_variable>
#include <mutex>
#include <thread>
#elif SOMA_POSIX
#include <pthread.h>
#endif

namespace SOMA_NAMESPACE {

namespace system {

inline constexpr bool has_threads = !SOMA_BARE;

#if SOMA_WINDOWS
using MutexHandle = std::mutex;
using ConditionHandle = std::condition_variable;
using ThreadHandle = std::thread;
#elif SOMA_POSIX
struct MutexHandle {
  pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
};
struct ConditionHandle {
  pthread_cond_t own = PTHREAD_COND_INITIALIZER;
};
struct ThreadHandle {
  pthread_t own{};
};
#else
struct MutexHandle {};
struct ConditionHandle {};
struct ThreadHandle {};
#endif

}  // namespace system

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

    // Gives the mutex away for a while, in one and the same scope.
    void unlock();
    void lock();

   private:
    friend class Condition;

    Mutex& mutex_;
    bool held_ = false;
  };

 private:
  friend class Condition;

  system::MutexHandle handle_;
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
    while (!holds()) sleep(lock);
  }
  // Sleeps once, for about that long or until somebody wakes it.
  void sleep_for(Mutex::Lock& lock, std::int64_t nanoseconds);
  // Wakes a thread that waits, if there is one: it looks at its condition again.
  void notify_one();
  void notify_all();

 private:
  void sleep(Mutex::Lock& lock);

  system::ConditionHandle handle_;
};

namespace system {

// A thread that runs one function. join() before the end of its life.
class Thread {
 public:
  using Work = void* (*)(void*);
  // A thread of soma's may use this much stack. musl gives 128 KiB unasked, macOS 512 KiB.
  static constexpr std::size_t least_stack = std::size_t{1} << 20;

  // Returns 0, or the number of errno if the system cannot start it.
  int start(Work work, void* argument);
  void join();
  // True in the thread itself. The object must not change meanwhile.
  bool is_this() const;

 private:
  ThreadHandle handle_;
};

// A number that no other thread has at the same time, and that is not 0.
std::uintptr_t this_thread();

// Calls the function in every child that fork() makes from now on. Returns 0, or the number of
// errno. A system without forks never calls it.
int after_fork(void (*in_child)());

// Lets other threads run on this core.
void yield();
void sleep_for(std::int64_t nanoseconds);

// Sleeps while the word is `value`, until wake(); returns early now and then.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value);
// Wakes one thread that sleeps there.
void wake(std::atomic<std::uint32_t>& word);

}  // namespace system
}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/system/impl/threads.ipp>
#endif
