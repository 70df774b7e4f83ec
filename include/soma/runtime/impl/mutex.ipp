#pragma once
// The functions of mutex.hpp.

#include <soma/runtime/mutex.hpp>

#include <pthread.h>

namespace SOMA_NAMESPACE {

SOMA_INLINE Mutex::Lock::Lock(Mutex& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_.handle_); }

SOMA_INLINE Mutex::Lock::~Lock() { pthread_mutex_unlock(&mutex_.handle_); }

SOMA_INLINE void Condition::notify_one() { pthread_cond_signal(&handle_); }

}  // namespace SOMA_NAMESPACE
