#pragma once
// StoppableSource: a source that ends early when a stop is requested, on all ranks after the same
// batch.

#include <soma/data/batch.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/system/clock.hpp>
#include <soma/train/ranks.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::train {

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

  SOMA_INLINE bool next(data::Batch& batch) override;
  // True if batches were withheld: results of the other batches must be thrown away.
  bool cut() const { return cut_; }

  SOMA_INLINE data::Position position() const override;
  SOMA_INLINE void seek(data::Position position) override;
  SOMA_INLINE std::uint64_t batches(std::uint64_t epoch) const override;
  SOMA_INLINE std::uint64_t hash() const override;
  SOMA_INLINE void describe(Record& record) const override;
  SOMA_INLINE std::size_t largest_rows() const override;
  SOMA_INLINE std::size_t largest_sequences() const override;

 private:
  // Ranks learn of a stop only together. As that takes time, they do it once in a number of batches
  // that takes about a fifth of a second: the same number on all ranks.
  void look();
  bool read(data::Batch& batch);

  data::BatchSource& inner_;
  const StopFlag* stop_;
  Ranks& ranks_;
  When when_;
  bool cut_ = false;
  std::uint64_t calls_ = 0, next_look_ = 0, between_ = 1;
  std::int64_t looked_ = monotonic_nanoseconds();
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/stoppable_source.ipp>
#endif
