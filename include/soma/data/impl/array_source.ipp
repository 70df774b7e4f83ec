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

namespace SOMA_NAMESPACE::data {

SOMA_INLINE ArraySource::ArraySource(Context& context, const Tensor& features, const Tensor& labels,
                                     const BatchOptions& options)
    : IndexedSource("ArraySource", context, options), context_(context) {
  if (!features.defined())
    fail(error_id::tensor_undefined, "ArraySource", "features", "not defined", "a tensor");
  if (features.rank() == 0 || (labels.defined() && labels.rank() == 0))
    fail(error_id::tensor_rank, "ArraySource", "features or labels", "a scalar",
         "at least one dimension: rows");
  if (labels.defined() && labels.size(0) != features.size(0))
    fail(error_id::data_labels, "ArraySource", "labels", labels.describe(),
         "one for each of " + std::to_string(features.size(0)) + " rows");
  features_ = contiguous(context, features);
  if (labels.defined()) labels_ = contiguous(context, labels);
  start(features_.size(0));
}

SOMA_INLINE void ArraySource::add_content(ContentHash& hash) const {
  for (const Tensor& tensor : {features_, labels_}) {
    if (!tensor.defined()) continue;
    hash.add_text(tensor.describe());
    hash.add_bytes({tensor.raw(), tensor.bytes()});
  }
}

SOMA_INLINE Batch ArraySource::make(std::span<const std::uint32_t> items) const {
  Batch batch;
  batch.inputs = {gather(features_, items),
                  Sequences::uniform(context_, items.size(), options().shards)};
  if (labels_.defined()) batch.labels = gather(labels_, items);
  return batch;
}

SOMA_INLINE Tensor ArraySource::gather(const Tensor& from,
                                       std::span<const std::uint32_t> items) const {
  Shape shape = from.shape();
  shape = shape.with(0, items.size());
  const Tensor rows = Tensor::empty(context_, shape, from.dtype());
  if (rows.bytes() == 0) return rows;
  const std::size_t bytes = from.bytes() / from.size(0);
  std::byte* to = rows.mutable_raw();
  for (const std::uint32_t item : items) {
    std::memcpy(to, from.raw() + item * bytes, bytes);
    to += bytes;
  }
  return rows;
}

}  // namespace SOMA_NAMESPACE::data
