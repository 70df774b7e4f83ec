#pragma once
// KeyValueCache: keys and values of the rows that a decoder has seen. Later rows of the same
// sequences are computed without the earlier rows, with the same bits: products have one order
// whatever the number of rows, and attention of the last rows (ops/attention/attention.hpp) has the
// sums of attention of all rows.
//
//   nn::KeyValueCache cache(context, layers, key_value_heads * head_width);
//   cache.add();
//   cache.begin({&rows, 1});      // so many new rows of the sequence
//   ... layer.continued(tape, x, cache, i) for each layer i
//   cache.end();

#include <soma/runtime/heap_vector.hpp>
#include <soma/tensor/ragged.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE::nn {

// A layer has one tensor for all sequences, in which each sequence has room for whole blocks of
// rows. Where the room of one ends, all get more: the layers are copied one by one, so that
// at most one layer is there twice. Not for several threads at once.
class KeyValueCache {
 public:
  static constexpr std::size_t block_rows = 64;

  // `columns`: K D. `type`: that of the model's hidden states.
  KeyValueCache(Context& context, std::size_t layers, std::size_t columns,
                DType type = DType::fp32);

  // The most bytes that sequences of so many rows take, with the room ahead of them and the copy of
  // a layer that grows. Error base.size_overflow.
  static std::size_t most_bytes(std::size_t layers, std::size_t columns, DType type,
                                std::span<const std::size_t> rows);
  // The bytes in use now.
  std::size_t bytes() const;

  std::size_t count() const;  // number of sequences
  // The rows of a sequence whose keys and values are kept.
  std::size_t rows(std::size_t sequence) const { return rows_[sequence]; }
  std::size_t layers() const;
  DType type() const { return type_; }

  // An empty sequence, behind the others.
  void add();
  // Forgets a sequence; those behind it move up.
  void remove(std::size_t sequence);

  // Begins a step with so many new rows of each sequence, 0 for those that wait. Error
  // tensor.shape: not a number for each sequence.
  void begin(std::span<const std::size_t> new_rows);
  // The new rows of the step, as sequences.
  const Sequences& step() const { return step_; }
  // The position of the first new row of each sequence, int64 [sequences].
  const Tensor& first_positions() const { return first_positions_; }
  // Where each sequence's new rows begin, int64 [sequences + 1].
  const Tensor& query_begins() const { return query_begins_; }
  // Keeps the new rows' keys and values in a layer: the last 2 K D columns of qkv [rows, ...].
  // Returns all that are kept, [room, 2 K D]; sequences() says which rows are whose. Errors
  // tensor.shape, tensor.dtype.
  Tensor append(std::size_t layer, const Tensor& qkv);
  // The rows of append()'s result as sequences, with the room ahead as padding.
  const Sequences& sequences() const { return all_; }
  // Ends the step: its rows are kept.
  void end();

 private:
  // Gives each sequence room for `wanted` rows, in whole blocks.
  void make_room(std::span<const std::size_t> wanted);

  Context& context_;
  std::size_t columns_;
  DType type_;
  HeapVector<Tensor> layers_;
  HeapVector<std::size_t> rows_, room_, begins_;  // one of each for a sequence
  HeapVector<std::size_t> new_rows_;              // in the step
  Sequences step_{}, all_{};
  Tensor first_positions_{}, query_begins_{};
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/key_value_cache.ipp>
#endif
