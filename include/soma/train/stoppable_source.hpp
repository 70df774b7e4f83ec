#pragma once
// StoppableSource: a source that ends early when a stop is requested, on all ranks after the same
// batch.

#include <soma/data/batch.hpp>
#include <soma/runtime/clock.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/train/ranks.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace soma::train {

class StoppableSource final : public data::BatchSource {
 public:
  // The moment at which a stop request takes effect.
  //   between_batches  next() delivers nothing more once the ranks have agreed on the stop, which
  //                    they do a few times a second: for an evaluation, which is then dropped
  //   while_reading    a batch that is being read is not delivered: for a step, which finishes
  //                    batches that it has already read
  enum class When : std::uint8_t { between_batches, while_reading };

  // All ranks must call next() equally often. `stop` may be nullptr.
  StoppableSource(data::BatchSource& inner, const StopFlag* stop, Ranks& ranks, When when)
      : inner_(inner), stop_(stop), ranks_(ranks), when_(when) {}

  bool next(data::Batch& batch) override {
    if (stop_ == nullptr) return inner_.next(batch);
    if (when_ == When::while_reading) return read(batch);
    if (!cut_ && calls_++ == next_look_) look();
    return !cut_ && inner_.next(batch);
  }
  // True if batches were withheld: results of the other batches must be thrown away.
  bool cut() const { return cut_; }

  data::Position position() const override { return inner_.position(); }
  void seek(data::Position position) override { inner_.seek(position); }
  std::uint64_t batches(std::uint64_t epoch) const override { return inner_.batches(epoch); }
  std::uint64_t hash() const override { return inner_.hash(); }
  void describe(Record& record) const override { inner_.describe(record); }
  std::size_t largest_rows() const override { return inner_.largest_rows(); }
  std::size_t largest_sequences() const override { return inner_.largest_sequences(); }

 private:
  // Ranks learn of a stop only together. As that takes time, they do it once in a number of batches
  // that takes about a fifth of a second: the same number on all ranks.
  void look() {
    constexpr std::int64_t often = 200'000'000;
    cut_ = ranks_.any(stop_->requested());
    const std::int64_t now = monotonic_nanoseconds();
    if (ranks_.count() != 1)
      between_ = ranks_.any(now - looked_ > often) ? (std::max)(between_ / 2, std::uint64_t{1})
                                                   : (std::min)(2 * between_, std::uint64_t{1024});
    looked_ = now;
    next_look_ = calls_ + between_ - 1;
  }
  bool read(data::Batch& batch) {
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

  data::BatchSource& inner_;
  const StopFlag* stop_;
  Ranks& ranks_;
  When when_;
  bool cut_ = false;
  std::uint64_t calls_ = 0, next_look_ = 0, between_ = 1;
  std::int64_t looked_ = monotonic_nanoseconds();
};

}  // namespace soma::train
