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

namespace soma {

inline constexpr std::size_t default_shards = 8;
inline constexpr std::size_t max_shards = 1024;

struct SequencesOptions {
  // The logical number of each sequence in the global batch, which is the key of random draws.
  // Empty: first_ordinal and the numbers after it.
  std::span<const std::uint64_t> ordinals{};
  std::uint64_t first_ordinal = 0;
  // Sums over the rows of the batch are cut into this number of parts (a power of two), so that
  // their order does not depend on the machine.
  std::size_t shards = default_shards;
  // How many rows of each sequence, from its first on, are its own: the others are padding, which
  // attention does not look at. Empty: all are.
  std::span<const std::size_t> used{};
};

// The division of a batch's rows into sequences, and of rows and sequences into shards. Immutable;
// copies share.
class Sequences {
 public:
  // No sequences: defined() is false.
  Sequences() = default;

  // Lengths may be 0. Shards end at the sequence borders nearest to equal numbers of rows. Errors
  // base.size_overflow, ragged.ordinals (not one for each sequence), ragged.padding, ragged.shards,
  // random.index_range.
  static Sequences from_lengths(Context& context, std::span<const std::size_t> lengths,
                                const SequencesOptions& options = {}) {
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

  // Each row is a sequence of length 1, cut evenly: a batch without ragged text. Errors
  // ragged.shards, random.index_range.
  static Sequences uniform(Context& context, std::size_t rows,
                           std::size_t shards = default_shards) {
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

  // One row for each sequence, with the same shards: the layout of a batch in which every sequence
  // has become one vector.
  Sequences summary(Context& context) const {
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
    data->row_bounds.assign(known().sequence_bounds);
    data->sequence_bounds.assign(known().sequence_bounds);
    return Sequences(std::move(data));
  }

  // Each row becomes a sequence of `length` rows, with the same shards: for a batch [B, T, C] whose
  // first dimension these rows are. Errors ragged.ordinals (sequences that do not have exactly one
  // row), random.index_range.
  Sequences lengthened(Context& context, std::size_t length) const {
    if (longest() > 1 || count() != rows())
      fail(error_id::ragged_ordinals, "Sequences::lengthened", "sequences",
           longest() > 1 ? "of up to " + std::to_string(longest()) + " rows" : "with empty ones",
           "of one row each");
    auto data = make(context);
    data->rows = checked_multiply(rows(), length, "Sequences::lengthened");
    data->longest = rows() == 0 ? 0 : length;
    for (std::size_t i = 0; i < rows(); ++i) {
      token_index(ordinal(i), (std::max)(length, std::size_t{1}) - 1, 0);
      data->offsets.push_back((i + 1) * length);
      data->ordinals.push_back(ordinal(i));
      for (std::size_t position = 0; position < length; ++position)
        data->row_indices.push_back(token_index(ordinal(i), position, 0));
    }
    for (const std::size_t bound : row_bounds()) data->row_bounds.push_back(bound * length);
    data->sequence_bounds.assign(known().sequence_bounds);
    return Sequences(std::move(data));
  }

  // `shard_count` shards (a power of two) from `first` on, as sequences of their own, with the same
  // borders and the ordinals of the whole batch. The part may hold no sequence. Error
  // ragged.shards.
  Sequences part(Context& context, std::size_t first, std::size_t shard_count) const {
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

  bool defined() const { return data_ != nullptr; }
  // Defined sequences only, as for all members below. Error tensor.undefined.
  std::size_t count() const { return known().ordinals.size(); }
  std::size_t rows() const { return known().rows; }
  std::size_t longest() const { return known().longest; }
  std::size_t begin(std::size_t sequence) const { return known().offsets[sequence]; }
  std::size_t end(std::size_t sequence) const { return known().offsets[sequence + 1]; }
  std::size_t length(std::size_t sequence) const { return end(sequence) - begin(sequence); }
  std::uint64_t ordinal(std::size_t sequence) const { return known().ordinals[sequence]; }
  // True if sequences may have padding behind their own rows (SequencesOptions::used).
  bool padded() const { return known().padded; }
  // The number of rows of a sequence that are its own, and of all sequences together.
  std::size_t used(std::size_t sequence) const {
    return padded() ? known().used[sequence] : length(sequence);
  }
  std::size_t used_rows() const {
    std::size_t sum = padded() ? 0 : rows();
    for (const std::size_t own : known().used) sum += own;
    return sum;
  }
  // count() + 1 offsets.
  std::span<const std::size_t> offsets() const { return known().offsets; }
  // token_index(ordinal, position, 0) of each row.
  std::span<const std::uint64_t> row_indices() const { return known().row_indices; }

  std::size_t shards() const { return known().row_bounds.size() - 1; }
  // The bounds of shards in rows and in sequences: shards() + 1 each.
  std::span<const std::size_t> row_bounds() const { return known().row_bounds; }
  std::span<const std::size_t> sequence_bounds() const { return known().sequence_bounds; }

 private:
  struct Data : Counted {
    explicit Data(Heap& memory)
        : Counted(memory),
          offsets(memory),
          ordinals(memory),
          row_indices(memory),
          row_bounds(memory),
          sequence_bounds(memory),
          used(memory) {
      offsets.push_back(0);
    }
    // Shard s ends at the sequence border nearest to (s + 1) / shards of the rows; of two equally
    // near borders, at the earlier one. Distances are counted in 1 / shards of a row: exact, and
    // far below 2^64, because row_indices holds every row.
    void cut(std::size_t shards) {
      const std::size_t sequences = offsets.size() - 1;
      std::size_t border = 0;  // the last border that is not behind the goal
      row_bounds.push_back(0);
      sequence_bounds.push_back(0);
      for (std::size_t shard = 1; shard < shards; ++shard) {
        const std::size_t goal = rows * shard;
        while (border < sequences && offsets[border + 1] * shards <= goal) ++border;
        const bool next_is_nearer = border < sequences && offsets[border + 1] * shards - goal <
                                                              goal - offsets[border] * shards;
        const std::size_t nearest = border + (next_is_nearer ? 1 : 0);
        row_bounds.push_back(offsets[nearest]);
        sequence_bounds.push_back(nearest);
      }
      row_bounds.push_back(rows);
      sequence_bounds.push_back(sequences);
    }
    HeapVector<std::size_t> offsets;
    HeapVector<std::uint64_t> ordinals, row_indices;
    HeapVector<std::size_t> row_bounds, sequence_bounds;
    HeapVector<std::size_t> used;  // of padded sequences, one each
    std::size_t rows = 0, longest = 0;
    bool padded = false;
  };

  static void check_shards(std::size_t shards) {
    if (shards == 0 || shards > max_shards || (shards & (shards - 1)) != 0)
      fail(error_id::ragged_shards, "Sequences", "shards", std::to_string(shards),
           "a power of two up to " + std::to_string(max_shards));
  }
  static void check_used(std::span<const std::size_t> used, std::span<const std::size_t> lengths) {
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
  static Shared<Data> make(Context& context) { return Shared<Data>::make(context.heap()); }
  explicit Sequences(Shared<Data> data) : data_(std::move(data)) {}

  const Data& known() const {
    if (data_ == nullptr) refuse();
    return *data_;
  }
  [[noreturn]] static void refuse() {
    fail(error_id::tensor_undefined, "Sequences", "sequences", "not defined",
         "the sequences of a batch (Sequences::from_lengths, Sequences::uniform)");
  }

  Shared<Data> data_;  // constant once made
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

}  // namespace soma
