#pragma once
// The functions of bucketed_source.hpp.

#include <soma/data/bucketed_source.hpp>

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

SOMA_INLINE BucketedSource::BucketedSource(Context& context, BatchSource& source,
                                           std::vector<std::size_t> lengths)
    : context_(context), source_(source), lengths_(std::move(lengths)) {
  std::size_t before = 0;
  for (const std::size_t length : lengths_) {
    if (length <= before) refuse_lengths();
    before = length;
  }
  if (lengths_.empty()) refuse_lengths();
}

SOMA_INLINE bool BucketedSource::next(Batch& batch) {
  Batch made;
  if (!source_.next(made)) return false;
  pad(made);
  batch = std::move(made);
  return true;
}

SOMA_INLINE Position BucketedSource::position() const { return source_.position(); }

SOMA_INLINE void BucketedSource::seek(Position position) { source_.seek(position); }

SOMA_INLINE std::uint64_t BucketedSource::batches(std::uint64_t epoch) const {
  return source_.batches(epoch);
}

SOMA_INLINE std::uint64_t BucketedSource::hash() const {
  ContentHash hash;
  hash.add(source_.hash());
  hash.add_list(std::span(lengths_));
  return hash.value();
}

SOMA_INLINE void BucketedSource::describe(Record& record) const {
  source_.describe(record);
  record.set("data.buckets", words());
}

SOMA_INLINE std::size_t BucketedSource::largest_rows() const {
  return checked_multiply(source_.largest_sequences(), lengths_.back(), "BucketedSource");
}

SOMA_INLINE std::size_t BucketedSource::largest_sequences() const {
  return source_.largest_sequences();
}

SOMA_INLINE std::string BucketedSource::words() const {
  std::string text;
  for (const std::size_t length : lengths_)
    text.append(text.empty() ? "" : ", ").append(std::to_string(length));
  return text;
}

SOMA_INLINE void BucketedSource::refuse_lengths() const {
  fail(error_id::data_buckets, "BucketedSource", "lengths",
       lengths_.empty() ? std::string("none") : words(), "lengths that ascend from 1 on");
}

SOMA_INLINE void BucketedSource::pad(Batch& batch) const {
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
  for (Field& field : batch.fields)
    if (field.by_rows) field.values = spread(field.values, given, sequences);
  batch.inputs.sequences = std::move(sequences);
}

SOMA_INLINE Tensor BucketedSource::spread(const Tensor& rows, const Sequences& from,
                                          const Sequences& to) const {
  const Tensor result = Tensor::zeros(context_, rows.shape().with(0, to.rows()), rows.dtype());
  for (std::size_t i = 0; i < from.count(); ++i)
    copy(rows.slice(0, from.begin(i), from.end(i)),
         result.slice(0, to.begin(i), to.begin(i) + from.length(i)));
  return result;
}

}  // namespace SOMA_NAMESPACE::data
