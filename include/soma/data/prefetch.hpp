#pragma once
// Prefetch: a source that makes its next batches in the background while the last one is used. Its
// constructor starts a thread; the destructor joins it.

#include <soma/data/batch.hpp>
#include <soma/runtime/clock.hpp>
#include <soma/runtime/mutex.hpp>

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace soma::data {

// Delivers the source's batches and errors in the same order: the next() that would have met an
// exception throws it. The source's tensors come from its context's heap, which is thread-safe. The
// thread too requests memory from the host's resource, but never at the same time as another
// thread. The source must outlive this object, and nobody else may use it meanwhile.
class Prefetch final : public BatchSource {
 public:
  static constexpr std::size_t most_ahead = 1024;
  // Up to `ahead` batches (1 to most_ahead) wait in a ring. Error executor.thread_start.
  explicit Prefetch(BatchSource& source, std::size_t ahead = 2)
      : source_(source),
        places_(std::clamp(ahead, std::size_t{1}, most_ahead)),
        position_(source.position()) {
    const auto begin = [](void* self) -> void* {
      static_cast<Prefetch*>(self)->work();
      return nullptr;
    };
    const int error = pthread_create(&thread_, nullptr, begin, this);
    if (error != 0)
      fail(error_id::thread_start, "Prefetch", "thread",
           std::string("refused by the system (").append(std::strerror(error)).append(")"),
           "one thread");
  }
  // Leaves the source somewhere ahead of position().
  ~Prefetch() override {
    {
      const Mutex::Lock lock(mutex_);
      stopping_ = true;
    }
    room_.notify_one();
    pthread_join(thread_, nullptr);
  }

  bool next(Batch& batch) override {
    Made made = take();
    room_.notify_one();
    if (made.exception) std::rethrow_exception(made.exception);
    if (made.is_batch) batch = std::move(made.batch);
    return made.is_batch;
  }

  // The position after the batches that were delivered, not after those that were made.
  Position position() const override {
    const Mutex::Lock lock(mutex_);
    return position_;
  }
  // Drops the waiting batches. Errors as of the source, which then stays where it was.
  void seek(Position position) override {
    Mutex::Lock lock(mutex_);
    paused_ = true;
    idle_.wait(lock, [this] { return !working_; });
    struct Resume {
      Prefetch& self;
      ~Resume() {
        self.paused_ = false;
        self.room_.notify_one();
      }
    } const resume{*this};
    source_.seek(position);
    std::fill(places_.begin(), places_.end(), Made());
    ready_ = 0;
    position_ = position;
  }

  std::uint64_t batches(std::uint64_t epoch) const override {
    const Mutex::Lock lock(source_mutex_);
    return source_.batches(epoch);
  }
  std::uint64_t hash() const override {
    const Mutex::Lock lock(source_mutex_);
    return source_.hash();
  }
  void describe(Record& record) const override {
    const Mutex::Lock lock(source_mutex_);
    source_.describe(record);
  }
  std::size_t largest_rows() const override { return source_.largest_rows(); }
  std::size_t largest_sequences() const override { return source_.largest_sequences(); }

  // The seconds that next() has waited for batches that were not ready, over all calls.
  double waited_seconds() const {
    const Mutex::Lock lock(mutex_);
    return static_cast<double>(waited_) * 1e-9;
  }

 private:
  // The result of one next() of the source, and the source's position afterwards.
  struct Made {
    Batch batch;
    bool is_batch = false;
    Position next;
    std::exception_ptr exception;
  };

  // The next that was made, when there is one.
  Made take() {
    Mutex::Lock lock(mutex_);
    if (ready_ == 0) {
      const std::int64_t start = monotonic_nanoseconds();
      filled_.wait(lock, [this] { return ready_ != 0; });
      waited_ += monotonic_nanoseconds() - start;
    }
    Made made = std::move(places_[first_]);
    first_ = (first_ + 1) % places_.size();
    --ready_;
    position_ = made.next;
    return made;
  }

  Made make() {
    const Mutex::Lock lock(source_mutex_);
    Made made;
#if SOMA_HAS_EXCEPTIONS
    try {
      made.is_batch = source_.next(made.batch);
    } catch (...) {
      made.exception = std::current_exception();
    }
#else
    made.is_batch = source_.next(made.batch);
#endif
    made.next = source_.position();
    return made;
  }

  void work() {
    while (wait_for_room()) {
      Made made = make();
      {
        const Mutex::Lock lock(mutex_);
        working_ = false;
        places_[(first_ + ready_++) % places_.size()] = std::move(made);
      }
      filled_.notify_one();
      idle_.notify_one();
    }
  }

  // Waits until there is room for a batch; returns false if the thread should end.
  bool wait_for_room() {
    Mutex::Lock lock(mutex_);
    room_.wait(lock, [this] { return stopping_ || (!paused_ && ready_ < places_.size()); });
    working_ = !stopping_;
    return working_;
  }

  BatchSource& source_;
  mutable Mutex mutex_;         // protects everything below
  mutable Mutex source_mutex_;  // held while the source is at work
  Condition filled_, room_, idle_;
  // A ring of fixed size: the thread, which could not report an error, needs no memory to store a
  // batch.
  std::vector<Made> places_;
  std::size_t first_ = 0, ready_ = 0;
  Position position_;
  std::int64_t waited_ = 0;
  bool working_ = false, paused_ = false, stopping_ = false;
  pthread_t thread_{};
};

}  // namespace soma::data
