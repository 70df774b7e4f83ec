#pragma once
// Prefetch: a source that makes its next batches in the background while the last one is used. Its
// constructor starts a thread; the destructor joins it.

#include <soma/data/batch.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/threads.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data {

// Delivers the source's batches and errors in the same order: the next() that would have met an
// exception throws it. The source's tensors come from its context's heap, which is thread-safe. The
// thread too requests memory from the host's resource, but never at the same time as another
// thread. The source must outlive this object, and nobody else may use it meanwhile.
class Prefetch final : public BatchSource {
 public:
  static constexpr std::size_t most_ahead = 1024;
  // Up to `ahead` batches wait in a ring; numbers outside of 1 to most_ahead are limited to that
  // range. Error executor.thread_start.
  explicit Prefetch(BatchSource& source, std::size_t ahead = 2);
  // Leaves the source somewhere ahead of position().
  SOMA_INLINE ~Prefetch() override;

  SOMA_INLINE bool next(Batch& batch) override;

  // The position after the batches that were delivered, not after those that were made.
  SOMA_INLINE Position position() const override;
  // Drops the waiting batches. Errors as of the source, which then stays where it was.
  SOMA_INLINE void seek(Position position) override;

  SOMA_INLINE std::uint64_t batches(std::uint64_t epoch) const override;
  SOMA_INLINE std::uint64_t hash() const override;
  SOMA_INLINE void describe(Record& record) const override;
  SOMA_INLINE std::size_t largest_rows() const override;
  SOMA_INLINE std::size_t largest_sequences() const override;

  // The seconds that next() has waited for batches that were not ready, over all calls.
  double waited_seconds() const;

 private:
  // The result of one next() of the source, and the source's position afterwards.
  struct Made {
    Batch batch;
    bool is_batch = false;
    Position next;
    std::exception_ptr exception;
  };

  // The next that was made, when there is one.
  Made take();

  Made make();

  void work();

  // Waits until there is room for a batch; returns false if the thread should end.
  bool wait_for_room();

  BatchSource& source_;
  mutable Mutex mutex_;         // protects everything below
  mutable Mutex source_mutex_;  // held while the source is at work
  Condition filled_, room_, idle_;
  // A ring of fixed size: the thread, which could not report an error, needs no memory to store a
  // batch.
  std::vector<Made> slots_;
  std::size_t first_ = 0, ready_ = 0;
  Position position_;
  std::int64_t waited_ = 0;
  bool working_ = false, paused_ = false, stopping_ = false;
  system::Thread thread_{};
};

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/prefetch.ipp>
#endif
