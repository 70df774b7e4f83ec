#pragma once
// ArraySource: batches of the rows of a tensor, with a label or a target for each row.

#include <soma/data/indexed_source.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::data {

// A batch's inputs are [sequences, ...]: each row is a sequence of length 1, so batch_tokens and
// batch_sequences mean the same.
class ArraySource final : public IndexedSource {
 public:
  // Features [n, ...] and labels [n, ...] of any dtype; labels may be undefined. Only tensors with
  // gaps are copied: later changes to other elements change the batches. Errors tensor.undefined,
  // tensor.rank (a scalar), data.labels (not n labels), data.empty, data.batch_size, ragged.shards,
  // random.index_range.
  ArraySource(Context& context, const Tensor& features, const Tensor& labels,
              const BatchOptions& options = {});

  const Tensor& features() const { return features_; }
  const Tensor& labels() const { return labels_; }

 private:
  SOMA_INLINE void add_content(ContentHash& hash) const override;
  std::size_t length(std::size_t) const override { return 1; }

  SOMA_INLINE Batch make(std::span<const std::uint32_t> items) const override;

  // The rows with these numbers.
  Tensor gather(const Tensor& from, std::span<const std::uint32_t> items) const;

  Context& context_;
  Tensor features_, labels_;
};

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/array_source.ipp>
#endif
