#pragma once
// The functions of stoppable_source.hpp.

#include <soma/train/stoppable_source.hpp>

#include <soma/data/batch.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/system/clock.hpp>
#include <soma/train/ranks.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE bool StoppableSource::next(data::Batch& batch) {
  if (stop_ == nullptr) return inner_.next(batch);
  if (when_ == When::while_reading) return read(batch);
  if (!cut_ && calls_++ == next_look_) look();
  return !cut_ && inner_.next(batch);
}

SOMA_INLINE data::Position StoppableSource::position() const { return inner_.position(); }

SOMA_INLINE void StoppableSource::seek(data::Position position) { inner_.seek(position); }

SOMA_INLINE std::uint64_t StoppableSource::batches(std::uint64_t epoch) const {
  return inner_.batches(epoch);
}

SOMA_INLINE std::uint64_t StoppableSource::hash() const { return inner_.hash(); }

SOMA_INLINE void StoppableSource::describe(Record& record) const { inner_.describe(record); }

SOMA_INLINE std::size_t StoppableSource::largest_rows() const { return inner_.largest_rows(); }

SOMA_INLINE std::size_t StoppableSource::largest_sequences() const {
  return inner_.largest_sequences();
}

SOMA_INLINE void StoppableSource::look() {
  constexpr std::int64_t often = 200'000'000;
  cut_ = ranks_.any(stop_->requested());
  const std::int64_t now = monotonic_nanoseconds();
  if (ranks_.count() != 1)
    between_ = ranks_.any(now - looked_ > often) ? (std::max)(between_ / 2, std::uint64_t{1})
                                                 : (std::min)(2 * between_, std::uint64_t{1024});
  looked_ = now;
  next_look_ = calls_ + between_ - 1;
}

SOMA_INLINE bool StoppableSource::read(data::Batch& batch) {
  bool more = false;
#if SOMA_HAS_EXCEPTIONS
  try {
    more = inner_.next(batch);
  } catch (const Error& error) {
    if (error.id() != error_id::stopped) throw;
    cut_ = true;
  }
#else
  more = inner_.next(batch);
#endif
  cut_ = ranks_.any(cut_);
  return more && !cut_;
}

}  // namespace SOMA_NAMESPACE::train
