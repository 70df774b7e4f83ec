#pragma once
// The functions of array_source.hpp.

#include <soma/data/array_source.hpp>

#include <soma/data/indexed_source.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data {

SOMA_INLINE ArraySource::ArraySource(Context& context, Columns columns, const BatchOptions& options)
    : IndexedSource("ArraySource", context, options),
      context_(context),
      columns_(std::move(columns)) {
  Tensor &inputs = columns_.inputs, &labels = columns_.labels;
  if (!inputs.defined())
    fail(error_id::tensor_undefined, "ArraySource", "inputs", "not defined", "a tensor");
  if (inputs.rank() == 0 || (labels.defined() && labels.rank() == 0))
    fail(error_id::tensor_rank, "ArraySource", "inputs or labels", "a scalar",
         "at least one dimension: rows");
  const std::size_t rows = inputs.size(0);
  std::size_t end = 0;
  begins_.reserve(columns_.lengths.size());
  for (const std::size_t length : columns_.lengths) {
    begins_.push_back(end);
    end = checked_add(end, length, "ArraySource");
  }
  if (!columns_.lengths.empty() && end != rows)
    fail(error_id::data_offsets, "ArraySource", "lengths",
         std::to_string(columns_.lengths.size()) + " that add up to " + std::to_string(end),
         "the " + std::to_string(rows) + " rows of the inputs");
  const std::size_t count = columns_.lengths.empty() ? rows : columns_.lengths.size();
  if (labels.defined() && labels.size(0) != count)
    fail(error_id::data_labels, "ArraySource", "labels", labels.describe(),
         "one for each of " + std::to_string(count) +
             (columns_.lengths.empty() ? " rows" : " sequences"));
  check_fields("ArraySource", columns_.fields, count, rows);
  inputs = contiguous(context, inputs);
  if (labels.defined()) labels = contiguous(context, labels);
  for (Field& field : columns_.fields) field.values = contiguous(context, field.values);
  start(count);
}

SOMA_INLINE ArraySource::ArraySource(Context& context, const Tensor& features, const Tensor& labels,
                                     const BatchOptions& options)
    : ArraySource(context, Columns{.inputs = features, .labels = labels}, options) {}

SOMA_INLINE std::size_t ArraySource::length(std::size_t item) const {
  return columns_.lengths.empty() ? 1 : columns_.lengths[item];
}

SOMA_INLINE void ArraySource::add_content(ContentHash& hash) const {
  const auto add = [&](const Tensor& tensor) {
    if (!tensor.defined()) return;
    hash.add_text(tensor.describe());
    hash.add_bytes({tensor.raw(), tensor.bytes()});
  };
  add(columns_.inputs);
  add(columns_.labels);
  if (!columns_.lengths.empty()) hash.add_list(std::span<const std::size_t>(columns_.lengths));
  for (const Field& field : columns_.fields) {
    hash.add_text(field.name);
    hash.add(field.by_rows ? 1 : 0);
    add(field.values);
  }
}

SOMA_INLINE Batch ArraySource::make(std::span<const std::uint32_t> items) const {
  Batch batch;
  Sequences sequences;
  if (columns_.lengths.empty()) {
    sequences = Sequences::uniform(context_, items.size(), options().shards);
  } else {
    std::vector<std::size_t> lengths;
    lengths.reserve(items.size());
    for (const std::uint32_t item : items) lengths.push_back(columns_.lengths[item]);
    sequences = Sequences::from_lengths(context_, lengths, {.shards = options().shards});
  }
  batch.inputs = {gather(columns_.inputs, items, true), std::move(sequences)};
  if (columns_.labels.defined()) batch.labels = gather(columns_.labels, items, false);
  for (const Field& field : columns_.fields)
    batch.fields.push_back({field.name, gather(field.values, items, field.by_rows), field.by_rows});
  return batch;
}

SOMA_INLINE Tensor ArraySource::gather(const Tensor& from, std::span<const std::uint32_t> items,
                                       bool by_rows) const {
  const bool sequences = by_rows && !columns_.lengths.empty();
  std::size_t count = items.size();
  if (sequences) {
    count = 0;
    for (const std::uint32_t item : items) count += columns_.lengths[item];
  }
  const Tensor rows = Tensor::empty(context_, from.shape().with(0, count), from.dtype());
  if (rows.bytes() == 0) return rows;
  const std::size_t bytes = from.bytes() / from.size(0);
  std::byte* to = rows.mutable_raw();
  for (const std::uint32_t item : items) {
    const std::size_t size = sequences ? columns_.lengths[item] * bytes : bytes;
    const std::size_t begin = sequences ? begins_[item] : item;
    if (size != 0) std::memcpy(to, from.raw() + begin * bytes, size);
    to += size;
  }
  return rows;
}

}  // namespace SOMA_NAMESPACE::data
