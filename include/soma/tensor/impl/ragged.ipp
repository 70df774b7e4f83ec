#pragma once
// The functions of ragged.hpp.

#include <soma/tensor/ragged.hpp>

#include <soma/numeric/logical_index.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/shared.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE Sequences Sequences::from_lengths(Context& context,
                                              std::span<const std::size_t> lengths,
                                              const SequencesOptions& options) {
  check_shards(options.shards);
  if (!options.ordinals.empty() && options.ordinals.size() != lengths.size())
    fail(error_id::ragged_ordinals, "Sequences", "ordinals",
         std::to_string(options.ordinals.size()), std::to_string(lengths.size()));
  check_used(options.used, lengths);
  auto data = make(context);
  data->used.assign(options.used);
  data->padded = !options.used.empty();
  data->offsets.reserve(lengths.size() + 1);
  data->ordinals.reserve(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    data->offsets.push_back(checked_add(data->offsets.back(), lengths[i], "Sequences"));
    data->ordinals.push_back(options.ordinals.empty() ? options.first_ordinal + i
                                                      : options.ordinals[i]);
    data->longest = (std::max)(data->longest, lengths[i]);
  }
  // Checked before any memory is requested, because lengths come from outside. An empty sequence
  // needs an index too: it becomes a row of a summary.
  for (std::size_t i = 0; i < lengths.size(); ++i)
    token_index(data->ordinals[i], (std::max)(lengths[i], std::size_t{1}) - 1, 0);
  data->rows = data->offsets.back();
  data->row_indices.reserve(data->rows);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    for (std::size_t position = 0; position < lengths[i]; ++position)
      data->row_indices.push_back(token_index(data->ordinals[i], position, 0));
  data->cut(options.shards);
  return Sequences(std::move(data));
}

SOMA_INLINE Sequences Sequences::uniform(Context& context, std::size_t rows, std::size_t shards) {
  check_shards(shards);
  if (rows != 0) token_index(rows - 1, 0, 0);
  auto data = make(context);
  data->offsets.reserve(rows + 1);
  data->ordinals.reserve(rows);
  data->row_indices.reserve(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    data->offsets.push_back(i + 1);
    data->ordinals.push_back(i);
    data->row_indices.push_back(token_index(i, 0, 0));
  }
  data->rows = rows;
  data->longest = rows == 0 ? 0 : 1;
  data->cut(shards);
  return Sequences(std::move(data));
}

SOMA_INLINE Sequences Sequences::summary(Context& context) const {
  auto data = make(context);
  const std::size_t sequences = count();
  data->offsets.reserve(sequences + 1);
  data->ordinals.reserve(sequences);
  data->row_indices.reserve(sequences);
  for (std::size_t i = 0; i < sequences; ++i) {
    data->offsets.push_back(i + 1);
    data->ordinals.push_back(ordinal(i));
    data->row_indices.push_back(token_index(ordinal(i), 0, 0));
  }
  data->rows = sequences;
  data->longest = sequences == 0 ? 0 : 1;
  data->summarized = data_;
  data->row_bounds.assign(known().sequence_bounds);
  data->sequence_bounds.assign(known().sequence_bounds);
  return Sequences(std::move(data));
}

SOMA_INLINE Sequences Sequences::lengthened(Context& context, std::size_t length) const {
  if (longest() > 1 || count() != rows())
    fail(error_id::ragged_ordinals, "Sequences::lengthened", "sequences",
         longest() > 1 ? "of up to " + std::to_string(longest()) + " rows" : "with empty ones",
         "of one row each");
  auto data = make(context);
  const std::size_t inner = place_.inner;
  const std::size_t sequences = checked_multiply(rows(), inner, "Sequences::lengthened");
  data->rows = checked_multiply(sequences, length, "Sequences::lengthened");
  data->longest = sequences == 0 ? 0 : length;
  for (std::size_t i = 0; i < sequences; ++i) {
    const std::uint64_t own = ordinal(i / inner) * inner + i % inner;
    token_index(own, (std::max)(length, std::size_t{1}) - 1, 0);
    data->offsets.push_back((i + 1) * length);
    data->ordinals.push_back(own);
    for (std::size_t position = 0; position < length; ++position)
      data->row_indices.push_back(token_index(own, position, 0));
  }
  for (const std::size_t bound : row_bounds()) {
    data->row_bounds.push_back(bound * inner * length);
    data->sequence_bounds.push_back(bound * inner);
  }
  return Sequences(std::move(data));
}

SOMA_INLINE Sequences Sequences::with_inner_rows(Context& context, std::size_t inner) const {
  constexpr std::string_view name = "Sequences::with_inner_rows";
  auto data = make(context);
  data->rows = checked_multiply(rows(), inner, name);
  data->longest = checked_multiply(longest(), inner, name);
  if (data->longest != 0)
    for (std::size_t i = 0; i < count(); ++i)
      token_index(ordinal(i), (std::max)(length(i) * inner, std::size_t{1}) - 1, 0);
  data->offsets.reserve(count() + 1);
  data->ordinals.assign(known().ordinals);
  data->row_indices.reserve(data->rows);
  data->padded = padded();
  for (std::size_t i = 0; i < count(); ++i) {
    data->offsets.push_back(end(i) * inner);
    if (padded()) data->used.push_back(used(i) * inner);
    for (std::size_t position = 0; position < length(i) * inner; ++position)
      data->row_indices.push_back(token_index(ordinal(i), position, 0));
  }
  for (const std::size_t bound : row_bounds()) data->row_bounds.push_back(bound * inner);
  data->sequence_bounds.assign(known().sequence_bounds);
  return Sequences(std::move(data));
}

SOMA_INLINE Sequences Sequences::at(const BatchPlace& place) const {
  Sequences result = *this;
  result.place_ = place;
  return result;
}

SOMA_INLINE bool Sequences::fits(const Tensor& tensor) const {
  return place_.dimension < tensor.rank() &&
         tensor.size(place_.dimension) == place_.outer * rows() * place_.inner;
}

SOMA_INLINE bool Sequences::same_batch(const Sequences& other) const {
  return data_.operator->() == other.data_.operator->();
}

SOMA_INLINE bool Sequences::summarizes(const Sequences& batch) const {
  return data_ != nullptr && data_->summarized != nullptr &&
         data_->summarized.operator->() == batch.data_.operator->();
}

SOMA_INLINE Sequences Sequences::part(Context& context, std::size_t first,
                                      std::size_t shard_count) const {
  if (shard_count == 0 || (shard_count & (shard_count - 1)) != 0 || first > shards() ||
      shard_count > shards() - first)
    fail(error_id::ragged_shards, "Sequences::part", "shards",
         std::to_string(shard_count) + " from " + std::to_string(first) + " on",
         "a power of two of " + std::to_string(shards()));
  const std::size_t end_shard = first + shard_count;
  const std::size_t row = row_bounds()[first], sequence = sequence_bounds()[first];
  auto data = make(context);
  data->rows = row_bounds()[end_shard] - row;
  const std::size_t sequences = sequence_bounds()[end_shard] - sequence;
  data->padded = padded();
  data->offsets.reserve(sequences + 1);
  data->ordinals.reserve(sequences);
  data->row_indices.reserve(data->rows);
  for (std::size_t i = sequence; i < sequence + sequences; ++i) {
    if (padded()) data->used.push_back(used(i));
    data->offsets.push_back(end(i) - row);
    data->ordinals.push_back(ordinal(i));
    data->longest = (std::max)(data->longest, length(i));
  }
  for (std::size_t i = row; i < row + data->rows; ++i)
    data->row_indices.push_back(row_indices()[i]);
  for (std::size_t i = first; i <= end_shard; ++i) {
    data->row_bounds.push_back(row_bounds()[i] - row);
    data->sequence_bounds.push_back(sequence_bounds()[i] - sequence);
  }
  return Sequences(std::move(data));
}

SOMA_INLINE std::size_t Sequences::count() const { return known().ordinals.size(); }

SOMA_INLINE std::size_t Sequences::rows() const { return known().rows; }

SOMA_INLINE std::size_t Sequences::longest() const { return known().longest; }

SOMA_INLINE std::size_t Sequences::begin(std::size_t sequence) const {
  return known().offsets[sequence];
}

SOMA_INLINE std::size_t Sequences::end(std::size_t sequence) const {
  return known().offsets[sequence + 1];
}

SOMA_INLINE std::size_t Sequences::length(std::size_t sequence) const {
  return end(sequence) - begin(sequence);
}

SOMA_INLINE std::uint64_t Sequences::ordinal(std::size_t sequence) const {
  return known().ordinals[sequence];
}

SOMA_INLINE bool Sequences::padded() const { return known().padded; }

SOMA_INLINE std::size_t Sequences::used(std::size_t sequence) const {
  return padded() ? known().used[sequence] : length(sequence);
}

SOMA_INLINE std::size_t Sequences::used_rows() const {
  std::size_t sum = padded() ? 0 : rows();
  for (const std::size_t own : known().used) sum += own;
  return sum;
}

SOMA_INLINE std::span<const std::size_t> Sequences::offsets() const { return known().offsets; }

SOMA_INLINE std::span<const std::uint64_t> Sequences::row_indices() const {
  return known().row_indices;
}

SOMA_INLINE std::size_t Sequences::shards() const { return known().row_bounds.size() - 1; }

SOMA_INLINE std::span<const std::size_t> Sequences::row_bounds() const {
  return known().row_bounds;
}

SOMA_INLINE std::span<const std::size_t> Sequences::sequence_bounds() const {
  return known().sequence_bounds;
}

SOMA_INLINE Sequences::Data::Data(Heap& memory)
    : Counted(memory),
      offsets(memory),
      ordinals(memory),
      row_indices(memory),
      row_bounds(memory),
      sequence_bounds(memory),
      used(memory) {
  offsets.push_back(0);
}

SOMA_INLINE void Sequences::Data::cut(std::size_t shards) {
  const std::size_t sequences = offsets.size() - 1;
  std::size_t border = 0;  // the last border that is not behind the goal
  row_bounds.push_back(0);
  sequence_bounds.push_back(0);
  for (std::size_t shard = 1; shard < shards; ++shard) {
    const std::size_t goal = rows * shard;
    while (border < sequences && offsets[border + 1] * shards <= goal) ++border;
    const bool next_is_nearer =
        border < sequences && offsets[border + 1] * shards - goal < goal - offsets[border] * shards;
    const std::size_t nearest = border + (next_is_nearer ? 1 : 0);
    row_bounds.push_back(offsets[nearest]);
    sequence_bounds.push_back(nearest);
  }
  row_bounds.push_back(rows);
  sequence_bounds.push_back(sequences);
}

SOMA_INLINE void Sequences::check_shards(std::size_t shards) {
  if (shards == 0 || shards > max_shards || (shards & (shards - 1)) != 0)
    fail(error_id::ragged_shards, "Sequences", "shards", std::to_string(shards),
         "a power of two up to " + std::to_string(max_shards));
}

SOMA_INLINE void Sequences::check_used(std::span<const std::size_t> used,
                                       std::span<const std::size_t> lengths) {
  if (used.empty()) return;
  if (used.size() != lengths.size())
    fail(error_id::ragged_padding, "Sequences", "used", std::to_string(used.size()),
         std::to_string(lengths.size()));
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i] > lengths[i] || (used[i] == 0 && lengths[i] != 0))
      fail(error_id::ragged_padding, "Sequences", "used rows of sequence " + std::to_string(i),
           std::to_string(used[i]),
           lengths[i] == 0 ? std::string("0") : "1 to " + std::to_string(lengths[i]));
}

SOMA_INLINE auto Sequences::make(Context& context) -> Shared<Data> {
  return Shared<Data>::make(context.heap());
}

SOMA_INLINE auto Sequences::known() const -> const Data& {
  if (data_ == nullptr) refuse();
  return *data_;
}

SOMA_INLINE void Sequences::refuse() {
  fail(error_id::tensor_undefined, "Sequences", "sequences", "not defined",
       "the sequences of a batch (Sequences::from_lengths, Sequences::uniform)");
}

}  // namespace SOMA_NAMESPACE
