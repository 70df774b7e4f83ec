#pragma once
// Ragged: a batch of sequences of different lengths without padding. It holds the concatenated
// rows, and a Sequences object with the begin of each sequence.

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

inline constexpr std::size_t default_shards = 8;
inline constexpr std::size_t max_shards = 1024;

struct SequencesOptions {
  // The logical number of each sequence in the global batch, which is the key of random draws.
  // Empty: first_ordinal and the numbers after it.
  std::span<const std::uint64_t> ordinals{};
  std::uint64_t first_ordinal = 0;
  // Sums over the rows of the batch are cut into this number of parts (a power of two, at most
  // max_shards), so that their order does not depend on the machine.
  std::size_t shards = default_shards;
  // How many rows of each sequence, from its first on, are its own: the others are padding, which
  // attention does not look at. Empty: all are.
  std::span<const std::size_t> used{};
};

// Where a tensor has the rows of a batch: dimension `dimension` has `outer` times all rows, and of
// each row `inner` elements side by side. [rows, C] has them in dimension 0, [T, B, C] in dimension
// 1; reshaped to [T * B, C], dimension 0 has T (outer) times the rows.
struct BatchPlace {
  std::size_t dimension = 0, outer = 1, inner = 1;

  // True if the elements of a row, and the rows, lie one behind the other.
  bool leads() const { return dimension == 0 && outer == 1; }
  friend bool operator==(const BatchPlace&, const BatchPlace&) = default;
};

// The division of a batch's rows into sequences, and of rows and sequences into shards, and the
// place of these rows in a tensor. Immutable; copies share.
class Sequences {
 public:
  // No sequences: defined() is false.
  Sequences() = default;

  // Lengths may be 0. Shards end at the sequence borders nearest to equal numbers of rows. Errors
  // base.size_overflow, ragged.ordinals (not one for each sequence), ragged.padding, ragged.shards,
  // random.index_range.
  static Sequences from_lengths(Context& context, std::span<const std::size_t> lengths,
                                const SequencesOptions& options = {});

  // Each row is a sequence of length 1, cut evenly: a batch without ragged text. Errors
  // ragged.shards, random.index_range.
  static Sequences uniform(Context& context, std::size_t rows, std::size_t shards = default_shards);

  // One row for each sequence, with the same shards: the layout of a batch in which every sequence
  // has become one vector.
  Sequences summary(Context& context) const;

  // Each row becomes a sequence of `length` rows, with the same shards: for a batch [B, T, C] whose
  // first dimension these rows are. With inner rows in this dimension ([B * H, T, C]) each of them
  // becomes one, with the ordinal of its row times their number plus its own. Errors
  // ragged.ordinals (sequences that do not have exactly one row), random.index_range.
  Sequences lengthened(Context& context, std::size_t length) const;

  // Each row becomes `inner` rows of the same sequence, with the same shards: row i of position p
  // has position p * inner + i. For operators that read a tensor of more dimensions as rows. Errors
  // base.size_overflow, random.index_range.
  Sequences with_inner_rows(Context& context, std::size_t inner) const;

  // `shard_count` shards (a power of two) from `first` on, as sequences of their own, with the same
  // borders and the ordinals of the whole batch. The part may hold no sequence. Error
  // ragged.shards.
  Sequences part(Context& context, std::size_t first, std::size_t shard_count) const;

  // The same rows in another place of a tensor.
  Sequences at(const BatchPlace& place) const;
  const BatchPlace& place() const { return place_; }
  // True if the tensor has all rows in their place.
  bool fits(const Tensor& tensor) const;
  // True if both are one batch, at any place.
  bool same_batch(const Sequences& other) const;
  // True if these are the summary of `batch`.
  bool summarizes(const Sequences& batch) const;

  bool defined() const { return data_ != nullptr; }
  // Defined sequences only, as for all members below. Error tensor.undefined.
  std::size_t count() const;
  std::size_t rows() const;
  std::size_t longest() const;
  std::size_t begin(std::size_t sequence) const;
  std::size_t end(std::size_t sequence) const;
  std::size_t length(std::size_t sequence) const;
  std::uint64_t ordinal(std::size_t sequence) const;
  // True if sequences may have padding behind their own rows (SequencesOptions::used).
  bool padded() const;
  // The number of rows of a sequence that are its own, and of all sequences together.
  std::size_t used(std::size_t sequence) const;
  std::size_t used_rows() const;
  // count() + 1 offsets.
  std::span<const std::size_t> offsets() const;
  // token_index(ordinal, position, 0) of each row.
  std::span<const std::uint64_t> row_indices() const;

  std::size_t shards() const;
  // The bounds of shards in rows and in sequences: shards() + 1 each.
  std::span<const std::size_t> row_bounds() const;
  std::span<const std::size_t> sequence_bounds() const;

 private:
  struct Data : Counted {
    explicit Data(Heap& memory);
    // Shard s ends at the sequence border nearest to (s + 1) / shards of the rows; of two equally
    // near borders, at the earlier one. Distances are counted in 1 / shards of a row: exact, and
    // far below 2^64, because row_indices holds every row.
    void cut(std::size_t shards);
    HeapVector<std::size_t> offsets;
    HeapVector<std::uint64_t> ordinals, row_indices;
    HeapVector<std::size_t> row_bounds, sequence_bounds;
    HeapVector<std::size_t> used;  // of padded sequences, one each
    Shared<Data> summarized;       // the batch of a summary
    std::size_t rows = 0, longest = 0;
    bool padded = false;
  };

  static void check_shards(std::size_t shards);
  static void check_used(std::span<const std::size_t> used, std::span<const std::size_t> lengths);
  static Shared<Data> make(Context& context);
  explicit Sequences(Shared<Data> data) : data_(std::move(data)) {}

  const Data& known() const;
  [[noreturn]] static void refuse();

  Shared<Data> data_;  // constant once made
  BatchPlace place_;
};

// Rows of any shape: the first dimension is sequences.rows().
struct Ragged {
  Tensor rows;
  Sequences sequences;
};

// A batch of lists, for example of token ids, as one ragged tensor. Errors as of
// Sequences::from_lengths.
template <class T>
Ragged make_ragged(Context& context, std::span<const std::vector<T>> lists,
                   const SequencesOptions& options = {}) {
  HeapVector<std::size_t> lengths(context.heap());
  for (const std::vector<T>& list : lists) lengths.push_back(list.size());
  const Sequences sequences = Sequences::from_lengths(context, lengths, options);
  const Tensor rows = Tensor::empty(context, Shape{sequences.rows()}, dtype_of<T>);
  T* next = rows.mutable_data<T>();
  for (const std::vector<T>& list : lists) next = std::copy(list.begin(), list.end(), next);
  return {rows, sequences};
}

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/tensor/impl/ragged.ipp>
#endif
