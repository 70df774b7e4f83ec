#pragma once
// What a training loop reads: batches, epoch after epoch, from a source that can be asked where it
// is and put back there.
//
//   soma::data::Batch batch;
//   for (std::uint64_t epoch = 0; epoch < epochs; ++epoch)
//     while (source.next(batch)) step(batch);

#include <soma/base/record.hpp>
#include <soma/data/labels.hpp>
#include <soma/tensor/ragged.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace soma::data {

struct Batch {
  Ragged inputs;    // int32 token ids [rows], or features [rows, ...]
  Tensor types;     // int32 token types [rows]; not defined: all are 0
  Tensor values{};  // fp32 [rows] that sparse features have; not defined: all are 1
  Tensor
      labels;  // [sequences]: int64 classes, fp32 numbers, or what the source was given; may lack
  LabelLists label_lists{};  // where sequences have any number of classes; else not defined
  // Which of the source's sequences these are, in their order; empty where it does not number them.
  std::vector<std::uint32_t> items{};
  std::uint64_t epoch = 0;  // from 0
  std::uint64_t index = 0;  // in its epoch, from 0
  // Some shards of a batch (part_of): a task's loss is the sum then, not the mean.
  bool part = false;
  // Of a part: the lists of the whole batch, for tasks that choose by all of them.
  LabelLists whole_label_lists{};
};

// The batch that comes next. After the last one of an epoch it names a batch that is not there:
// next() then says so and goes on to the next epoch.
struct Position {
  std::uint64_t epoch = 0, batch = 0;
  friend constexpr bool operator==(const Position&, const Position&) = default;
};

// Sequences of a batch have the ordinals 0, 1, ... of their place in the batch. Not thread-safe.
class BatchSource {
 public:
  BatchSource() = default;
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;
  virtual ~BatchSource() = default;

  // The next batch; false at the end of an epoch, and the call after that begins the next one.
  // `batch` gets tensors of its own, which no later call changes.
  virtual bool next(Batch& batch) = 0;

  // Where next() goes on; seek(position()) changes nothing. What follows a seek is what followed
  // the same position before, to the last bit. Error data.position (beyond the epoch's end).
  virtual Position position() const = 0;
  virtual void seek(Position position) = 0;

  // How many batches the epoch has; 0: not known before its end.
  virtual std::uint64_t batches(std::uint64_t epoch) const = 0;

  // A number that is the same for the same data and the same settings of what batches hold: a run
  // is not resumed with another one. May cost a pass over the data.
  virtual std::uint64_t hash() const = 0;
  // The same in words, so that a run that is resumed with other data can say what differs: entries
  // named "data.<what>".
  virtual void describe(Record& record) const { record.set("data.content", hash()); }

  // No batch is larger: what to reserve memory for. Bounds, not necessarily reached.
  virtual std::size_t largest_rows() const = 0;
  virtual std::size_t largest_sequences() const = 0;
};

}  // namespace soma::data
