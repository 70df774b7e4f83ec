#pragma once
// ManyRanks: the implementation of Ranks for several ranks that train together, over a
// Communicator.

#include <soma/base/owned.hpp>
#include <soma/data/part.hpp>
#include <soma/ops/device.hpp>
#include <soma/ops/graph_log.hpp>
#include <soma/ops/rows/settings.hpp>
#include <soma/parallel/agreement.hpp>
#include <soma/parallel/broadcast_checkpoint.hpp>
#include <soma/parallel/gradient_reducer.hpp>
#include <soma/parallel/partition.hpp>
#include <soma/parallel/row_partition.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/shared.hpp>
#include <soma/train/evaluate_ranks.hpp>
#include <soma/train/options.hpp>
#include <soma/train/ranks.hpp>
#include <soma/train/save_part.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

class ManyRanks final : public Ranks {
 public:
  // Error parallel.ranks.
  ManyRanks(Context& context, Communicator& communicator, const GradientReducerOptions& options);

  int count() const override;
  bool first() const override;
  void barrier() override;
  void abort(std::string_view reason) override;
  void give_up_after(const StopFlag* stop, double seconds) override;
  bool any(bool mine) override;

  // ---- beginning and resuming

  void check(const nn::Task& task, const optim::Optimizer* optimizer) const override;
  void join(PrecisionState& precision, optim::Optimizer& optimizer) override;
  void begin(const RunDescription& run, const Parameters& parameters) override;
  bool from_first(bool mine) override;

  // Maxima over all ranks, which scales depend on.
  GlobalMaximum maximum();

  // ---- a step

  void begin_step(std::uint64_t step) override;
  data::Batch part_of(const data::Batch& batch) override;
  float weight_of(float whole, double count) const override;
  GradientReceiver* receiver() override { return &reducer_; }
  BatchSums* batch_sums() override { return &batch_sums_; }
  void finish_gradients() override;
  ReductionTimes reduction_times() const override;
  // In the order of the shards.
  double total_of(std::span<const BatchLoss> losses) override;
  void sum(std::span<std::uint64_t> numbers) override;
  double gradient_norm(Context& context, const Parameters& parameters) override;
  void gather_rows(const Parameters& parameters) override;

  void note_graphs() override;
  void compare_graphs() override;

  // A rank evaluates whole batches: their maxima are its own.
  Evaluation evaluate(Context& context, nn::Task& task, data::BatchSource& source,
                      PrecisionState& precision) override;

  // ---- checkpoints

  bool saves_parts() const override;
  void check_store(CheckpointStore* store) override;
  // Each rank's rows of the moments. The best checkpoint has no moments.
  void save_parts(CheckpointStore* store, std::optional<std::uint64_t> step,
                  Checkpoint& checkpoint) override;
  bool load(Context& context, CheckpointStore* store, Which which, Checkpoint& checkpoint) override;

 private:
  // nullptr: this rank's device makes no graphs.
  GraphLog* graph_log() const;
  static RowPartition rows_of(const Parameter& parameter);

  class SumsOfRanks final : public BatchSums {
   public:
    explicit SumsOfRanks(ManyRanks& ranks) : ranks_(ranks) {}
    void add(std::span<float> numbers) override;

   private:
    ManyRanks& ranks_;
  };

  // Not movable: messages in transit refer to it.
  class RowGather final : public Counted {
   public:
    RowGather(Heap& heap, Communicator& communicator, int tag, const Parameter& parameter);
    void finish();

   private:
    Tensor values_;
    RowPartition rows_;
    AllGather gather_;
  };

  Context& context_;
  Communicator& communicator_;
  bool shards_states_;
  GradientReducer reducer_;
  SumsOfRanks batch_sums_{*this};
};

Owned<Ranks> make_ranks(Context& context, const TrainerOptions& options);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/many_ranks.ipp>
#endif
