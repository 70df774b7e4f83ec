#pragma once
// TaskShare: a member's part of a job's tasks, from which its owner takes from the front and others
// from the end. One word tells all, so that it travels with one cache line.

#include <soma/base/config.hpp>

#include <atomic>
#include <cstdint>

namespace soma {

// Opened by one thread, when the last job of this share is finished; the rest is for any thread. A
// thread that was away for any time may still try to take: it takes a task of the job that is open
// then, or none. What was written before open() is seen by who takes a task, and what was written
// before finish() by who sees that the share is finished.
class TaskShare {
 public:
  static constexpr int bits = 20;
  static constexpr int most = (1 << bits) - 1;

  // `tasks` of them, 0 to `most`, numbered from 0.
  void open(int tasks) { word_.store(fresh(tasks), std::memory_order_release); }
  // The same where the first one, which has to be there, is taken and needs no finish().
  void open_taken(int tasks) {
    word_.store(fresh(tasks) + one_taken - one_unfinished, std::memory_order_release);
  }
  // No job will come any more.
  void close() { word_.store(no_more, std::memory_order_release); }

  // For the owner: whether there is a task to take, or none will come any more.
  bool called() const {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    return untaken(word) || word == no_more;
  }
  bool closed() const { return word_.load(std::memory_order_acquire) == no_more; }

  // The number of a task that is the calling thread's from now on, or -1.
  int take_first() {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (untaken(word))
      if (word_.compare_exchange_weak(word, word + one_taken, std::memory_order_acquire,
                                      std::memory_order_relaxed))
        return field(word, taken_at);
    return -1;
  }
  int take_last() {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (untaken(word))
      if (word_.compare_exchange_weak(word, word - one_end, std::memory_order_acquire,
                                      std::memory_order_relaxed))
        return field(word, end_at) - 1;
    return -1;
  }
  // Call it after each task that was taken. Returns true for the last task of the share.
  bool finish() {
    return field(word_.fetch_sub(one_unfinished, std::memory_order_acq_rel), unfinished_at) == 1;
  }
  bool finished() const { return field(word_.load(std::memory_order_acquire), unfinished_at) == 0; }
  // The same as a read-modify-write, for Sleeper.
  bool finished_in_order() {
    return field(word_.fetch_add(0, std::memory_order_acq_rel), unfinished_at) == 0;
  }

 private:
  // Tasks before `taken` and from `end` on are taken.
  static constexpr int taken_at = 0, end_at = bits, unfinished_at = 2 * bits;
  static constexpr std::uint64_t one_taken = std::uint64_t{1} << taken_at,
                                 one_end = std::uint64_t{1} << end_at,
                                 one_unfinished = std::uint64_t{1} << unfinished_at,
                                 no_more = std::uint64_t{1} << 63;

  static int field(std::uint64_t word, int at) { return static_cast<int>(word >> at & most); }
  static bool untaken(std::uint64_t word) { return field(word, taken_at) < field(word, end_at); }
  static std::uint64_t fresh(int tasks) {
    return static_cast<std::uint64_t>(tasks) * (one_end + one_unfinished);
  }

  std::atomic<std::uint64_t> word_{0};
};

}  // namespace soma
