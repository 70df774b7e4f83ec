#pragma once
// TaskShare: a member's part of a job's tasks, from which its owner takes from the front and others
// from the end. One word tells all, so that it travels with one cache line.

#include <soma/base/config.hpp>

#include <atomic>
#include <cstdint>

namespace SOMA_NAMESPACE {

// Opened by one thread, when the last job of this share is finished; the rest is for any thread. A
// thread that was away for any time may still try to take: it takes a task of the job that is open
// then, or none. What was written before open() is seen by who takes a task, and what was written
// before finish() by who sees that the share is finished.
class TaskShare {
 public:
  static constexpr int bits = 20;
  static constexpr int most = (1 << bits) - 1;

  // `tasks` of them, 0 to `most`, numbered from 0.
  void open(int tasks);
  // The same where the first one, which has to be there, is taken and needs no finish().
  void open_taken(int tasks);
  // No job will come any more.
  void close();

  // For the owner: whether there is a task to take, or none will come any more.
  bool called() const;
  bool closed() const;

  // The number of a task that is the calling thread's from now on, or -1.
  int take_first();
  int take_last();
  // Call it after each task that was taken. Returns true for the last task of the share.
  bool finish();
  bool finished() const;
  // The same as a read-modify-write, for Sleeper.
  bool finished_in_order();

 private:
  // Tasks before `taken` and from `end` on are taken.
  static constexpr int taken_at = 0, end_at = bits, unfinished_at = 2 * bits;
  static constexpr std::uint64_t one_taken = std::uint64_t{1} << taken_at,
                                 one_end = std::uint64_t{1} << end_at,
                                 one_unfinished = std::uint64_t{1} << unfinished_at,
                                 no_more = std::uint64_t{1} << 63;

  static int field(std::uint64_t word, int at);
  static bool untaken(std::uint64_t word);
  static std::uint64_t fresh(int tasks);

  std::atomic<std::uint64_t> word_{0};
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/task_share.ipp>
#endif
