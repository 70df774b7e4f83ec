#pragma once
// The functions of prefetch.hpp.

#include <soma/data/prefetch.hpp>

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

SOMA_INLINE Prefetch::Prefetch(BatchSource& source, std::size_t ahead)
    : source_(source),
      slots_(std::clamp(ahead, std::size_t{1}, most_ahead)),
      position_(source.position()) {
  const auto begin = [](void* self) -> void* {
    static_cast<Prefetch*>(self)->work();
    return nullptr;
  };
  const int error = thread_.start(begin, this);
  if (error != 0)
    fail(error_id::thread_start, "Prefetch", "thread",
         std::string("refused by the system (").append(std::strerror(error)).append(")"),
         "one thread");
}

SOMA_INLINE Prefetch::~Prefetch() {
  {
    const Mutex::Lock lock(mutex_);
    stopping_ = true;
  }
  room_.notify_one();
  thread_.join();
}

SOMA_INLINE bool Prefetch::next(Batch& batch) {
  Made made = take();
  room_.notify_one();
  if (made.exception) std::rethrow_exception(made.exception);
  if (made.is_batch) batch = std::move(made.batch);
  return made.is_batch;
}

SOMA_INLINE Position Prefetch::position() const {
  const Mutex::Lock lock(mutex_);
  return position_;
}

SOMA_INLINE void Prefetch::seek(Position position) {
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
  std::fill(slots_.begin(), slots_.end(), Made());
  ready_ = 0;
  position_ = position;
}

SOMA_INLINE std::uint64_t Prefetch::batches(std::uint64_t epoch) const {
  const Mutex::Lock lock(source_mutex_);
  return source_.batches(epoch);
}

SOMA_INLINE std::uint64_t Prefetch::hash() const {
  const Mutex::Lock lock(source_mutex_);
  return source_.hash();
}

SOMA_INLINE void Prefetch::describe(Record& record) const {
  const Mutex::Lock lock(source_mutex_);
  source_.describe(record);
}

SOMA_INLINE std::size_t Prefetch::largest_rows() const { return source_.largest_rows(); }

SOMA_INLINE std::size_t Prefetch::largest_sequences() const { return source_.largest_sequences(); }

SOMA_INLINE double Prefetch::waited_seconds() const {
  const Mutex::Lock lock(mutex_);
  return static_cast<double>(waited_) * 1e-9;
}

SOMA_INLINE auto Prefetch::take() -> Made {
  Mutex::Lock lock(mutex_);
  if (ready_ == 0) {
    const std::int64_t start = monotonic_nanoseconds();
    filled_.wait(lock, [this] { return ready_ != 0; });
    waited_ += monotonic_nanoseconds() - start;
  }
  Made made = std::move(slots_[first_]);
  first_ = (first_ + 1) % slots_.size();
  --ready_;
  position_ = made.next;
  return made;
}

SOMA_INLINE auto Prefetch::make() -> Made {
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

SOMA_INLINE void Prefetch::work() {
  while (wait_for_room()) {
    Made made = make();
    {
      const Mutex::Lock lock(mutex_);
      working_ = false;
      slots_[(first_ + ready_++) % slots_.size()] = std::move(made);
    }
    filled_.notify_one();
    idle_.notify_one();
  }
}

SOMA_INLINE bool Prefetch::wait_for_room() {
  Mutex::Lock lock(mutex_);
  room_.wait(lock, [this] { return stopping_ || (!paused_ && ready_ < slots_.size()); });
  working_ = !stopping_;
  return working_;
}

}  // namespace SOMA_NAMESPACE::data
