#pragma once
// ArraySource: batches of the rows of a tensor, with a label or a target for each row.

#include <soma/data/indexed_source.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace soma::data {

// A batch's inputs are [sequences, ...]: each row is a sequence of length 1, so batch_tokens and
// batch_sequences mean the same.
class ArraySource final : public IndexedSource {
 public:
  // Features [n, ...] and labels [n, ...] of any dtype; labels may be undefined. Only tensors with
  // gaps are copied: later changes to other elements change the batches. Errors tensor.undefined,
  // tensor.rank (a scalar), data.labels (not n labels), data.empty, data.batch_size, ragged.shards,
  // random.index_range.
  ArraySource(Context& context, const Tensor& features, const Tensor& labels,
              const BatchOptions& options = {})
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

  const Tensor& features() const { return features_; }
  const Tensor& labels() const { return labels_; }

 private:
  void add_content(ContentHash& hash) const override {
    for (const Tensor& tensor : {features_, labels_}) {
      if (!tensor.defined()) continue;
      hash.add_text(tensor.describe());
      hash.add_bytes({tensor.raw(), tensor.bytes()});
    }
  }
  std::size_t length(std::size_t) const override { return 1; }

  Batch make(std::span<const std::uint32_t> items) const override {
    Batch batch;
    batch.inputs = {gather(features_, items),
                    Sequences::uniform(context_, items.size(), options().shards)};
    if (labels_.defined()) batch.labels = gather(labels_, items);
    return batch;
  }

  // The rows with these numbers.
  Tensor gather(const Tensor& from, std::span<const std::uint32_t> items) const {
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

  Context& context_;
  Tensor features_, labels_;
};

}  // namespace soma::data
