#pragma once
// The functions of mapped_source.hpp.

#include <soma/data/mapped_source.hpp>

#include <soma/base/error.hpp>
#include <soma/data/batch.hpp>
#include <soma/data/content_hash.hpp>
#include <soma/numeric/draw_sequence.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::data {

SOMA_INLINE DrawSequence ItemDraws::operator()(std::size_t i) const {
  if (i >= batch_.items.size())
    fail(error_id::data_field, "ItemDraws", "sequence " + std::to_string(i),
         "without a number in the data", "one of a source that numbers its sequences");
  if (batch_.epoch >> 32 != 0)
    fail(error_id::index_range, "ItemDraws", "epoch", std::to_string(batch_.epoch), "below 2^32");
  return DrawSequence({.seed = seed_,
                       .stream = stream_,
                       .step = static_cast<std::uint32_t>(batch_.epoch),
                       .index = std::uint64_t{batch_.items[i]} << 32});
}

SOMA_INLINE MappedSource::MappedSource(BatchSource& source, std::string name, std::uint64_t seed,
                                       Function function)
    : source_(source), name_(std::move(name)), seed_(seed), function_(std::move(function)) {
  if (name_.empty())
    fail(error_id::data_field, "MappedSource", "name", "empty", "a name for the function");
}

SOMA_INLINE bool MappedSource::next(Batch& batch) {
  Batch made;
  if (!source_.next(made)) return false;
  const std::size_t sequences = made.inputs.sequences.count(), rows = made.inputs.sequences.rows();
  function_(made, ItemDraws(made, seed_, stream_id("data.map", name_)));
  const auto fits = [&](const char* what, const Tensor& tensor, std::size_t wanted) {
    if (tensor.defined() && (tensor.rank() == 0 || tensor.size(0) != wanted))
      fail(error_id::data_field, "MappedSource", what,
           tensor.describe() + " behind the function " + soma::quoted(name_),
           std::to_string(wanted) + " in the first dimension, as before");
  };
  if (made.inputs.sequences.count() != sequences || made.inputs.sequences.rows() != rows)
    fail(error_id::data_field, "MappedSource", "inputs",
         std::to_string(made.inputs.sequences.count()) + " sequences of " +
             std::to_string(made.inputs.sequences.rows()) + " rows behind the function " +
             soma::quoted(name_),
         std::to_string(sequences) + " of " + std::to_string(rows) + ", as before");
  fits("inputs", made.inputs.rows, rows);
  fits("labels", made.labels, sequences);
  fits("types", made.types, rows);
  fits("values", made.values, rows);
  check_fields("MappedSource", made.fields, sequences, rows);
  batch = std::move(made);
  return true;
}

SOMA_INLINE Position MappedSource::position() const { return source_.position(); }

SOMA_INLINE void MappedSource::seek(Position position) { source_.seek(position); }

SOMA_INLINE std::uint64_t MappedSource::batches(std::uint64_t epoch) const {
  return source_.batches(epoch);
}

SOMA_INLINE std::uint64_t MappedSource::hash() const {
  ContentHash hash;
  hash.add(source_.hash());
  hash.add_text(name_);
  hash.add(seed_);
  return hash.value();
}

SOMA_INLINE void MappedSource::describe(Record& record) const {
  source_.describe(record);
  record.set("data.map." + name_, seed_);
}

SOMA_INLINE std::size_t MappedSource::largest_rows() const { return source_.largest_rows(); }

SOMA_INLINE std::size_t MappedSource::largest_sequences() const {
  return source_.largest_sequences();
}

}  // namespace SOMA_NAMESPACE::data
