#pragma once
// Mutex: a POSIX mutex. Including <mutex> would cost every unit that includes soma a tenth of a
// plain unit.

#include <pthread.h>

namespace soma {

class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  class [[nodiscard]] Lock {
   public:
    explicit Lock(Mutex& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_.handle_); }
    ~Lock() { pthread_mutex_unlock(&mutex_.handle_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Mutex& mutex_;
  };

 private:
  pthread_mutex_t handle_ = PTHREAD_MUTEX_INITIALIZER;
};

}  // namespace soma
