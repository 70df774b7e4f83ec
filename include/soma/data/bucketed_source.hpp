#pragma once
// BucketedSource: lengths of sequences rounded up to a few, for a device that compiles a graph for
// each set of lengths. What is added is padding (SequencesOptions::used), which attention does not
// look at, so losses are those of the batches without it but for the order of some sums.
//
//   data::TokenSource source(context, lists, {.batch_sequences = 32, .drop_last = true});
//   data::BucketedSource bucketed(context, source, {32, 64, 128});
//   trainer.fit(bucketed);

#include <soma/data/batch.hpp>
#include <soma/data/content_hash.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data {

// All sequences of a batch get the first of these lengths that is not below the longest of them: so
// batches of one number of sequences have as many shapes as there are lengths. An epoch's last
// batch has others where it is smaller, unless the source leaves it out (BatchOptions::drop_last).
// Elements of padding are 0, which is the id of [PAD] in BERT's vocabularies.
class BucketedSource final : public BatchSource {
 public:
  // The source outlives this. Error data.buckets: no lengths, or lengths that do not ascend from 1
  // on.
  BucketedSource(Context& context, BatchSource& source, std::vector<std::size_t> lengths);

  // Errors data.too_long (a sequence of more rows than the last length), data.feature (a batch
  // whose features have values), and those of the source.
  SOMA_INLINE bool next(Batch& batch) override;

  SOMA_INLINE Position position() const override;
  SOMA_INLINE void seek(Position position) override;
  SOMA_INLINE std::uint64_t batches(std::uint64_t epoch) const override;
  SOMA_INLINE std::uint64_t hash() const override;
  SOMA_INLINE void describe(Record& record) const override;
  SOMA_INLINE std::size_t largest_rows() const override;
  SOMA_INLINE std::size_t largest_sequences() const override;

 private:
  std::string words() const;
  [[noreturn]] void refuse_lengths() const;

  void pad(Batch& batch) const;
  // The rows of each sequence at the beginning of its place, zeros behind them.
  Tensor spread(const Tensor& rows, const Sequences& from, const Sequences& to) const;

  Context& context_;
  BatchSource& source_;
  std::vector<std::size_t> lengths_;
};

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/bucketed_source.ipp>
#endif
