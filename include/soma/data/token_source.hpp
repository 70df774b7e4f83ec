#pragma once
// TokenSource: batches of token lists in memory.

#include <soma/data/indexed_source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data {

// Token lists one behind the other. `types` may be empty: all types are 0. Labels are of one kind,
// and the members of the other kinds stay empty; batches have no labels if all are empty.
struct TokenLists {
  std::vector<std::int32_t> ids{}, types{};  // [tokens]
  std::vector<std::size_t> offsets{0};       // where lists begin, and the end of the last
  std::vector<std::int64_t> labels{};        // [lists]: a class each
  std::vector<float> numbers{};              // [lists]: a number each
  IdLists label_lists{};                     // [lists]: any number of classes each

  void add(std::span<const std::int32_t> list, std::int64_t label);
  std::size_t count() const;
};

namespace detail {

// A batch of the lists that copy_list(i, ids, types) writes for i = 0, 1, ...; types is nullptr
// without types. Labels may be empty.
template <class CopyList>
Batch token_batch(Context& context, std::span<const std::size_t> lengths, bool with_types,
                  const RowLabels& labels, std::size_t shards, const CopyList& copy_list) {
  Batch batch;
  batch.inputs.sequences = Sequences::from_lengths(context, lengths, {.shards = shards});
  const Shape rows{batch.inputs.sequences.rows()};
  batch.inputs.rows = Tensor::empty(context, rows, DType::int32);
  if (with_types) batch.types = Tensor::empty(context, rows, DType::int32);
  auto* ids = batch.inputs.rows.mutable_data<std::int32_t>();
  auto* types = with_types ? batch.types.mutable_data<std::int32_t>() : nullptr;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    copy_list(i, ids, types);
    ids += lengths[i];
    if (types != nullptr) types += lengths[i];
  }
  const auto tensor = [&]<class T>(const std::vector<T>& values) {
    return Tensor::from(context, std::span<const T>(values), Shape{values.size()});
  };
  if (!labels.classes.empty()) batch.labels = tensor(labels.classes);
  if (!labels.numbers.empty()) batch.labels = tensor(labels.numbers);
  if (!labels.lists.empty())
    batch.label_lists = {
        tensor(std::vector<std::int64_t>(labels.lists.offsets.begin(), labels.lists.offsets.end())),
        tensor(labels.lists.ids)};
  return batch;
}

}  // namespace detail

class TokenSource final : public IndexedSource {
 public:
  // Errors data.offsets (offsets that do not ascend from 0 to the number of ids, or another number
  // of types), ragged.empty_sequence (a list without tokens), data.labels (not one for each list),
  // data.empty, data.batch_size, ragged.shards, random.index_range.
  TokenSource(Context& context, TokenLists lists, const BatchOptions& options = {});

  const TokenLists& lists() const { return lists_; }

 private:
  SOMA_INLINE void add_content(ContentHash& hash) const override;
  void check() const;

  std::size_t length(std::size_t item) const override {
    return lists_.offsets[item + 1] - lists_.offsets[item];
  }

  SOMA_INLINE Batch make(std::span<const std::uint32_t> items) const override;

  Context& context_;
  TokenLists lists_;
};

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/token_source.ipp>
#endif
