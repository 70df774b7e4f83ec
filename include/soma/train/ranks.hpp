#pragma once
// Ranks: the other ranks of a run, as a trainer sees them. Without a communicator there are none,
// and every member does what one rank needs: mostly nothing.

#include <soma/autograd/parameter.hpp>
#include <soma/data/part.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/parallel/agreement.hpp>
#include <soma/parallel/broadcast_checkpoint.hpp>
#include <soma/parallel/gradient_reducer.hpp>
#include <soma/parallel/partition.hpp>
#include <soma/parallel/row_partition.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/shared.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soma::train {

class Ranks {
 public:
  // Error parallel.ranks.
  Ranks(Context& context, Communicator* communicator, const GradientReducerOptions& options)
      : context_(context), communicator_(communicator) {
    if (communicator != nullptr) reducer_.emplace(context, *communicator, options);
  }

  Ranks(const Ranks&) = delete;  // maximum() points here
  Ranks& operator=(const Ranks&) = delete;

  bool alone() const { return communicator_ == nullptr; }
  bool first() const { return alone() || communicator_->rank() == 0; }
  int count() const { return alone() ? 1 : communicator_->size(); }
  Communicator* communicator() const { return communicator_; }
  void barrier() {
    if (!alone()) communicator_->barrier();
  }
  void abort(std::string_view reason) { communicator_->abort(reason); }

  // ---- a step

  // Before the first batch of a step.
  void begin_step(std::uint64_t step) {
    if (!alone()) reducer_->begin_step(step);
  }
  // This rank's shards of a batch. Error parallel.ranks (fewer shards than ranks).
  data::Batch part_of(const data::Batch& batch) {
    const Part own = owned_shards(batch.inputs.sequences.shards(), communicator_->rank(), count());
    return data::part_of(context_, batch, own.begin, own.count);
  }
  // TapeOptions::receiver.
  GradientReceiver* receiver() { return alone() ? nullptr : &*reducer_; }
  // Waits until the gradients of all ranks have met.
  void finish_gradients() {
    if (!alone()) reducer_->finish();
  }
  ReductionTimes reduction_times() const { return alone() ? ReductionTimes{} : reducer_->times(); }
  // In the order of the shards.
  void sum(std::span<float> values) {
    if (!alone()) all_reduce(*communicator_, context_.heap(), values);
  }
  void sum(std::span<std::uint64_t> numbers) {
    if (!alone()) all_reduce_sum(*communicator_, context_.heap(), numbers);
  }
  bool any(bool mine) {
    if (alone()) return mine;
    std::uint64_t bit = mine ? 1 : 0;
    all_reduce_or(*communicator_, context_.heap(), {&bit, 1});
    return bit != 0;
  }
  // Of what decides scales.
  GlobalMaximum maximum() {
    return {this, [](void* self, std::span<float> values) {
              auto& ranks = *static_cast<Ranks*>(self);
              all_reduce_max(*ranks.communicator_, ranks.context_.heap(), values);
            }};
  }

  // ---- parameters of which each rank keeps some rows

  std::pair<std::size_t, std::size_t> own_rows(const Parameter& parameter) const {
    const Part own = rows_of(parameter).part(communicator_->rank(), count());
    return {own.begin, own.end()};
  }
  // Of sums over the gradients of own rows.
  void sum_parts(std::span<double> values) {
    all_reduce_parts(*communicator_, context_.heap(), values);
  }
  // From each rank its rows of every parameter, to all.
  void gather_rows(const Parameters& parameters) {
    constexpr std::size_t at_once = 16;
    for (std::size_t begin = 0; begin < parameters.size(); begin += at_once) {
      HeapVector<Shared<RowGather>> gathers(context_.heap());
      const std::size_t end = (std::min)(parameters.size(), begin + at_once);
      for (std::size_t i = begin; i < end; ++i)
        gathers.push_back(Shared<RowGather>::make(context_.heap(), *communicator_,
                                                  static_cast<int>(i - begin), parameters[i]));
      for (const Shared<RowGather>& gather : gathers) gather->finish();
    }
  }

  // ---- beginning and resuming

  // Whether all ranks are about to do the same; then they get rank 0's weights. Error
  // parallel.mismatch.
  void begin(const Record& run, const Parameters& parameters) {
    agree(*communicator_, run);
    for (const Parameter& parameter : parameters) {
      const Tensor value = parameter.value();
      if (value.bytes() != 0)
        broadcast_checked(*communicator_, {value.mutable_raw(), value.bytes()}, parameter.name);
    }
  }
  bool from_first(bool mine) {
    std::uint8_t flag = mine ? 1 : 0;
    if (!alone()) broadcast(*communicator_, std::as_writable_bytes(std::span(&flag, 1)));
    return flag != 0;
  }
  std::string from_first(const std::string& text) {
    return soma::detail::broadcast_text(*communicator_, text, 0);
  }
  Checkpoint from_first(const Checkpoint& checkpoint) {
    return broadcast_checkpoint(*communicator_, context_, checkpoint);
  }

 private:
  static RowPartition rows_of(const Parameter& parameter) {
    return RowPartition(parameter.var.shape(), parameter.first_row, parameter.last_row);
  }

  // Stays where it is: messages on their way belong to it.
  class RowGather final : public Counted {
   public:
    RowGather(Heap& heap, Communicator& communicator, int tag, const Parameter& parameter)
        : Counted(heap),
          values_(parameter.value()),
          rows_(rows_of(parameter)),
          gather_(communicator, tag) {
      if (values_.bytes() != 0)
        gather_.start({values_.mutable_raw(), values_.bytes()},
                      rows_.row_elements() * size_of(values_.dtype()), rows_);
    }
    void finish() { gather_.finish(); }

   private:
    Tensor values_;
    RowPartition rows_;
    AllGather gather_;
  };

  Context& context_;
  Communicator* communicator_;
  std::optional<GradientReducer> reducer_{};
};

}  // namespace soma::train
