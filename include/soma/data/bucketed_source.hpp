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

namespace soma::data {

// All sequences of a batch get the first of these lengths that is not below the longest of them: so
// batches of one number of sequences have as many shapes as there are lengths. An epoch's last
// batch has others where it is smaller, unless the source leaves it out (BatchOptions::drop_last).
// Elements of padding are 0, which is the id of [PAD] in BERT's vocabularies.
class BucketedSource final : public BatchSource {
 public:
  // The source outlives this. Error data.buckets: no lengths, or lengths that do not ascend from 1
  // on.
  BucketedSource(Context& context, BatchSource& source, std::vector<std::size_t> lengths)
      : context_(context), source_(source), lengths_(std::move(lengths)) {
    std::size_t before = 0;
    for (const std::size_t length : lengths_) {
      if (length <= before) refuse_lengths();
      before = length;
    }
    if (lengths_.empty()) refuse_lengths();
  }

  // Errors data.too_long (a sequence of more rows than the last length), data.feature (a batch
  // whose features have values), and those of the source.
  bool next(Batch& batch) override {
    Batch made;
    if (!source_.next(made)) return false;
    pad(made);
    batch = std::move(made);
    return true;
  }

  Position position() const override { return source_.position(); }
  void seek(Position position) override { source_.seek(position); }
  std::uint64_t batches(std::uint64_t epoch) const override { return source_.batches(epoch); }
  std::uint64_t hash() const override {
    ContentHash hash;
    hash.add(source_.hash());
    hash.add_list(std::span(lengths_));
    return hash.value();
  }
  void describe(Record& record) const override {
    source_.describe(record);
    record.set("data.buckets", words());
  }
  std::size_t largest_rows() const override {
    return checked_multiply(source_.largest_sequences(), lengths_.back(), "BucketedSource");
  }
  std::size_t largest_sequences() const override { return source_.largest_sequences(); }

 private:
  std::string words() const {
    std::string text;
    for (const std::size_t length : lengths_)
      text.append(text.empty() ? "" : ", ").append(std::to_string(length));
    return text;
  }
  [[noreturn]] void refuse_lengths() const {
    fail(error_id::data_buckets, "BucketedSource", "lengths",
         lengths_.empty() ? std::string("none") : words(), "lengths that ascend from 1 on");
  }

  void pad(Batch& batch) const {
    const Sequences& given = batch.inputs.sequences;
    if (batch.values.defined())
      fail(error_id::data_feature, "BucketedSource", "values", batch.values.describe(),
           "a batch whose features have none: padding would be a feature");
    const auto bucket = std::lower_bound(lengths_.begin(), lengths_.end(), given.longest());
    if (bucket == lengths_.end())
      fail(error_id::data_too_long, "BucketedSource", "longest sequence of the batch",
           std::to_string(given.longest()) + " rows",
           "at most " + std::to_string(lengths_.back()) + ", the last length");
    std::vector<std::size_t> used;
    std::vector<std::uint64_t> ordinals;
    for (std::size_t i = 0; i < given.count(); ++i) {
      used.push_back(given.used(i));
      ordinals.push_back(given.ordinal(i));
    }
    const std::vector<std::size_t> padded(given.count(), *bucket);
    Sequences sequences = Sequences::from_lengths(
        context_, padded, {.ordinals = ordinals, .shards = given.shards(), .used = used});
    batch.inputs.rows = spread(batch.inputs.rows, given, sequences);
    if (batch.types.defined()) batch.types = spread(batch.types, given, sequences);
    batch.inputs.sequences = std::move(sequences);
  }
  // The rows of each sequence at the beginning of its place, zeros behind them.
  Tensor spread(const Tensor& rows, const Sequences& from, const Sequences& to) const {
    const Tensor result = Tensor::zeros(context_, rows.shape().with(0, to.rows()), rows.dtype());
    for (std::size_t i = 0; i < from.count(); ++i)
      copy(rows.slice(0, from.begin(i), from.end(i)),
           result.slice(0, to.begin(i), to.begin(i) + from.length(i)));
    return result;
  }

  Context& context_;
  BatchSource& source_;
  std::vector<std::size_t> lengths_;
};

}  // namespace soma::data
