#pragma once
// ArraySource: batches from tensors: rows, or sequences of rows, with a label or a target for each,
// and further tensors by name.

#include <soma/data/indexed_source.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::data {

// The data of an ArraySource.
struct Columns {
  Tensor inputs;  // [rows, ...] of any type
  // Sequences lie one behind the other in the rows; empty: each row is a sequence.
  std::vector<std::size_t> lengths{};
  Tensor labels{};              // [sequences, ...] of any type; may lack
  std::vector<Field> fields{};  // all sequences, or all rows (Field::by_rows)
};

// Without lengths a batch's inputs are [sequences, ...]: each row is a sequence of length 1, so
// batch_tokens and batch_sequences mean the same.
class ArraySource final : public IndexedSource {
 public:
  // Only tensors with gaps are copied: later changes to other elements change the batches. Errors
  // tensor.undefined, tensor.rank (a scalar), data.labels (not one for each sequence), data.offsets
  // (lengths that are not those of all rows), data.field, data.empty, data.batch_size,
  // ragged.shards, random.index_range.
  ArraySource(Context& context, Columns columns, const BatchOptions& options = {});
  // Rows [n, ...] and labels [n, ...]; labels may be undefined.
  ArraySource(Context& context, const Tensor& features, const Tensor& labels,
              const BatchOptions& options = {});

  const Tensor& features() const { return columns_.inputs; }
  const Tensor& labels() const { return columns_.labels; }

 private:
  SOMA_INLINE void add_content(ContentHash& hash) const override;
  SOMA_INLINE std::size_t length(std::size_t item) const override;

  SOMA_INLINE Batch make(std::span<const std::uint32_t> items) const override;

  // The rows with these numbers, or the rows of the sequences with these numbers.
  Tensor gather(const Tensor& from, std::span<const std::uint32_t> items, bool by_rows) const;

  Context& context_;
  Columns columns_;
  std::vector<std::size_t> begins_{};  // first rows, where sequences have lengths
};

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/array_source.ipp>
#endif
