#pragma once
// The functions of task_share.hpp.

#include <soma/runtime/task_share.hpp>

#include <soma/base/config.hpp>

#include <atomic>
#include <cstdint>

namespace SOMA_NAMESPACE {

SOMA_INLINE void TaskShare::open(int tasks) {
  word_.store(fresh(tasks), std::memory_order_release);
}

SOMA_INLINE void TaskShare::open_taken(int tasks) {
  word_.store(fresh(tasks) + one_taken - one_unfinished, std::memory_order_release);
}

SOMA_INLINE void TaskShare::close() { word_.store(no_more, std::memory_order_release); }

SOMA_INLINE bool TaskShare::called() const {
  const std::uint64_t word = word_.load(std::memory_order_acquire);
  return untaken(word) || word == no_more;
}

SOMA_INLINE bool TaskShare::closed() const {
  return word_.load(std::memory_order_acquire) == no_more;
}

SOMA_INLINE int TaskShare::take_first() {
  std::uint64_t word = word_.load(std::memory_order_relaxed);
  while (untaken(word))
    if (word_.compare_exchange_weak(word, word + one_taken, std::memory_order_acquire,
                                    std::memory_order_relaxed))
      return field(word, taken_at);
  return -1;
}

SOMA_INLINE int TaskShare::take_last() {
  std::uint64_t word = word_.load(std::memory_order_relaxed);
  while (untaken(word))
    if (word_.compare_exchange_weak(word, word - one_end, std::memory_order_acquire,
                                    std::memory_order_relaxed))
      return field(word, end_at) - 1;
  return -1;
}

SOMA_INLINE bool TaskShare::finish() {
  return field(word_.fetch_sub(one_unfinished, std::memory_order_acq_rel), unfinished_at) == 1;
}

SOMA_INLINE bool TaskShare::finished() const {
  return field(word_.load(std::memory_order_acquire), unfinished_at) == 0;
}

SOMA_INLINE bool TaskShare::finished_in_order() {
  return field(word_.fetch_add(0, std::memory_order_acq_rel), unfinished_at) == 0;
}

SOMA_INLINE int TaskShare::field(std::uint64_t word, int at) {
  return static_cast<int>(word >> at & most);
}

SOMA_INLINE bool TaskShare::untaken(std::uint64_t word) {
  return field(word, taken_at) < field(word, end_at);
}

SOMA_INLINE std::uint64_t TaskShare::fresh(int tasks) {
  return static_cast<std::uint64_t>(tasks) * (one_end + one_unfinished);
}

}  // namespace SOMA_NAMESPACE
