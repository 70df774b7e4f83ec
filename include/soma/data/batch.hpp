#pragma once
// Batches: the input of a training loop, epoch after epoch, from a source whose position can be
// read and restored.
//
//   soma::data::Batch batch;
//   for (std::uint64_t epoch = 0; epoch < epochs; ++epoch)
//     while (source.next(batch)) step(batch);

#include <soma/base/record.hpp>
#include <soma/data/labels.hpp>
#include <soma/tensor/ragged.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::data {

// A further tensor of a batch: codes beside numbers, a second series, weights of sequences.
struct Field {
  std::string name;
  Tensor values;         // its first dimension counts sequences, or rows
  bool by_rows = false;  // true: one for each row of the inputs
};

struct Batch {
  Ragged inputs;    // int32 token ids [rows], or features [rows, ...]
  Tensor types;     // int32 token types [rows]; not defined: all are 0
  Tensor values{};  // fp32 [rows] that sparse features have; not defined: all are 1
  Tensor
      labels;  // [sequences]: int64 classes, fp32 numbers, or what the source was given; may lack
  LabelLists label_lists{};  // where sequences have any number of classes; else not defined
  // The source's numbers of these sequences, in order; empty if the source does not number
  // sequences.
  std::vector<std::uint32_t> items{};
  std::vector<Field> fields{};
  std::uint64_t epoch = 0;  // from 0
  std::uint64_t index = 0;  // in its epoch, from 0
  // True for a part of a batch's shards (part_of): a task's loss is then the sum, not the mean.
  bool part = false;
  // For a part: the lists of the whole batch, which tasks need that choose by all labels.
  LabelLists whole_label_lists{};

  // The values of a field. Error data.field lists the names that there are.
  const Tensor& at(std::string_view name) const;
};

// Error data.field: a field without a name or values, two of one name, or one that has not as many
// elements in its first dimension as there are sequences, or rows.
void check_fields(std::string_view operation, std::span<const Field> fields, std::size_t sequences,
                  std::size_t rows);

// The position of the next batch. After the last batch of an epoch it names a batch that does not
// exist: next() then returns false and continues with the next epoch.
struct Position {
  std::uint64_t epoch = 0, batch = 0;
  friend constexpr bool operator==(const Position&, const Position&) = default;
};

// Sequences of a batch have the ordinals 0, 1, ... of their position in the batch. Not thread-safe.
class BatchSource {
 public:
  BatchSource() = default;
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;
  virtual ~BatchSource() = default;

  // Reads the next batch. Returns false at the end of an epoch; the call after that begins the next
  // epoch. `batch` gets tensors of its own, which later calls do not change.
  virtual bool next(Batch& batch) = 0;

  // The position where next() continues; seek(position()) changes nothing. After a seek the same
  // batches follow as before, to the last bit. Error data.position: beyond the epoch's end.
  virtual Position position() const = 0;
  virtual void seek(Position position) = 0;

  // The number of batches of an epoch; 0: not known before its end.
  virtual std::uint64_t batches(std::uint64_t epoch) const = 0;

  // A hash of the data and of the settings that decide the batches: a run is resumed with the same
  // hash only. May cost a pass over the data.
  virtual std::uint64_t hash() const = 0;
  // The same as names and values, so that a run that is resumed with other data can report the
  // difference: entries named "data.<name>".
  SOMA_INLINE virtual void describe(Record& record) const;

  // Upper bounds of a batch's size, to reserve memory. No batch need reach them.
  virtual std::size_t largest_rows() const = 0;
  virtual std::size_t largest_sequences() const = 0;
};

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/batch.ipp>
#endif
