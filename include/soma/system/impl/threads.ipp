#pragma once
// The functions of threads.hpp.

#include <soma/system/threads.hpp>

#include <soma/base/config.hpp>
#include <soma/system/which.hpp>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#if SOMA_WINDOWS
#include <chrono>
#include <system_error>
#elif SOMA_POSIX
#include <pthread.h>
#include <sched.h>
#include <time.h>
#endif
#if SOMA_LINUX
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace SOMA_NAMESPACE {

SOMA_INLINE Mutex::Lock::Lock(Mutex& mutex) : mutex_(mutex) { lock(); }

SOMA_INLINE Mutex::Lock::~Lock() {
  if (held_) unlock();
}

SOMA_INLINE void Mutex::Lock::lock() {
#if SOMA_WINDOWS
  mutex_.handle_.lock();
#elif SOMA_POSIX
  pthread_mutex_lock(&mutex_.handle_.own);
#endif
  held_ = true;
}

SOMA_INLINE void Mutex::Lock::unlock() {
  held_ = false;
#if SOMA_WINDOWS
  mutex_.handle_.unlock();
#elif SOMA_POSIX
  pthread_mutex_unlock(&mutex_.handle_.own);
#endif
}

SOMA_INLINE void Condition::sleep([[maybe_unused]] Mutex::Lock& lock) {
#if SOMA_WINDOWS
  std::unique_lock held(lock.mutex_.handle_, std::adopt_lock);
  handle_.wait(held);
  held.release();
#elif SOMA_POSIX
  pthread_cond_wait(&handle_.own, &lock.mutex_.handle_.own);
#endif
}

SOMA_INLINE void Condition::sleep_for([[maybe_unused]] Mutex::Lock& lock,
                                      [[maybe_unused]] std::int64_t nanoseconds) {
#if SOMA_WINDOWS
  std::unique_lock held(lock.mutex_.handle_, std::adopt_lock);
  handle_.wait_for(held, std::chrono::nanoseconds(nanoseconds));
  held.release();
#elif SOMA_POSIX
  // The clock of a condition variable that is not asked for another one.
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  const std::int64_t sum = until.tv_nsec + nanoseconds;
  until.tv_sec += static_cast<time_t>(sum / 1'000'000'000);
  until.tv_nsec = static_cast<long>(sum % 1'000'000'000);
  pthread_cond_timedwait(&handle_.own, &lock.mutex_.handle_.own, &until);
#endif
}

SOMA_INLINE void Condition::notify_one() {
#if SOMA_WINDOWS
  handle_.notify_one();
#elif SOMA_POSIX
  pthread_cond_signal(&handle_.own);
#endif
}

SOMA_INLINE void Condition::notify_all() {
#if SOMA_WINDOWS
  handle_.notify_all();
#elif SOMA_POSIX
  pthread_cond_broadcast(&handle_.own);
#endif
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::system {

#if SOMA_WINDOWS

SOMA_INLINE int Thread::start(Work work, void* argument) {
#if SOMA_HAS_EXCEPTIONS
  try {
    handle_ = std::thread(work, argument);
  } catch (const std::system_error& error) {
    return error.code().default_error_condition().value();
  }
#else
  handle_ = std::thread(work, argument);
#endif
  return 0;
}

SOMA_INLINE void Thread::join() { handle_.join(); }

SOMA_INLINE bool Thread::is_this() const { return handle_.get_id() == std::this_thread::get_id(); }

SOMA_INLINE std::uintptr_t this_thread() {
  static thread_local const char place = 0;
  return reinterpret_cast<std::uintptr_t>(&place);
}

SOMA_INLINE int after_fork(void (*)()) { return 0; }

SOMA_INLINE void yield() { std::this_thread::yield(); }

SOMA_INLINE void sleep_for(std::int64_t nanoseconds) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds));
}

#elif SOMA_POSIX

SOMA_INLINE int Thread::start(Work work, void* argument) {
  pthread_attr_t attributes;
  if (const int error = pthread_attr_init(&attributes); error != 0) return error;
  std::size_t stack = 0;
  if (pthread_attr_getstacksize(&attributes, &stack) == 0 && stack < least_stack)
    pthread_attr_setstacksize(&attributes, least_stack);
  const int error = pthread_create(&handle_.own, &attributes, work, argument);
  pthread_attr_destroy(&attributes);
  return error;
}

SOMA_INLINE void Thread::join() { pthread_join(handle_.own, nullptr); }

SOMA_INLINE bool Thread::is_this() const { return pthread_equal(handle_.own, pthread_self()) != 0; }

SOMA_INLINE std::uintptr_t this_thread() {
  static_assert(sizeof(pthread_t) == sizeof(std::uintptr_t));
  return reinterpret_cast<std::uintptr_t>(reinterpret_cast<void*>(pthread_self()));
}

SOMA_INLINE int after_fork(void (*in_child)()) {
  return pthread_atfork(nullptr, nullptr, in_child);
}

SOMA_INLINE void yield() { ::sched_yield(); }

SOMA_INLINE void sleep_for(std::int64_t nanoseconds) {
  const timespec time{static_cast<time_t>(nanoseconds / 1'000'000'000),
                      static_cast<long>(nanoseconds % 1'000'000'000)};
  ::nanosleep(&time, nullptr);
}

#else

SOMA_INLINE int Thread::start(Work, void*) { return ENOTSUP; }

SOMA_INLINE void Thread::join() {}

SOMA_INLINE bool Thread::is_this() const { return false; }

SOMA_INLINE std::uintptr_t this_thread() { return 1; }

SOMA_INLINE int after_fork(void (*)()) { return 0; }

SOMA_INLINE void yield() {}

SOMA_INLINE void sleep_for(std::int64_t) {}

#endif

#if SOMA_LINUX

SOMA_INLINE void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  static_assert(sizeof word == 4, "a futex is four bytes");
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

SOMA_INLINE void wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

#elif SOMA_BARE

SOMA_INLINE void sleep_while(std::atomic<std::uint32_t>&, std::uint32_t) {}

SOMA_INLINE void wake(std::atomic<std::uint32_t>&) {}

#else

namespace detail {

// Where threads sleep: words whose addresses agree in a few bits share a place. (std::atomic's
// wait() loses calls of notify_one() in libstdc++ 12 for Windows.)
struct SleepingPlace {
  Mutex mutex;
  Condition changed;
};

inline SleepingPlace& sleeping_place(const void* word) {
  static SleepingPlace places[16];
  return places[reinterpret_cast<std::uintptr_t>(word) / 64 % 16];
}

}  // namespace detail

SOMA_INLINE void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  detail::SleepingPlace& place = detail::sleeping_place(&word);
  Mutex::Lock lock(place.mutex);
  // Whoever changes the word takes the mutex afterwards, in wake().
  place.changed.wait(lock, [&] { return word.load(std::memory_order_relaxed) != value; });
}

SOMA_INLINE void wake(std::atomic<std::uint32_t>& word) {
  detail::SleepingPlace& place = detail::sleeping_place(&word);
  const Mutex::Lock lock(place.mutex);
  place.changed.notify_all();
}

#endif

}  // namespace SOMA_NAMESPACE::system
