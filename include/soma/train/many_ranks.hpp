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

  SOMA_INLINE int count() const override;
  SOMA_INLINE bool first() const override;
  SOMA_INLINE void barrier() override;
  SOMA_INLINE void abort(std::string_view reason) override;
  SOMA_INLINE void give_up_after(const StopFlag* stop, double seconds) override;
  SOMA_INLINE bool any(bool mine) override;

  // ---- beginning and resuming

  SOMA_INLINE void check(const nn::Task& task, const optim::Optimizer* optimizer) const override;
  SOMA_INLINE void join(PrecisionState& precision, optim::Optimizer& optimizer) override;
  SOMA_INLINE void begin(const RunDescription& run, const Parameters& parameters) override;
  SOMA_INLINE bool from_first(bool mine) override;
  SOMA_INLINE std::uint64_t hash_of_all(std::uint64_t mine) override;

  // Maxima over all ranks, which scales depend on.
  GlobalMaximum maximum();

  // ---- a step

  SOMA_INLINE void begin_step(std::uint64_t step, DrawMapping mapping) override;
  SOMA_INLINE data::Batch part_of(const data::Batch& batch) override;
  SOMA_INLINE float weight_of(float whole, double count) const override;
  GradientReceiver* receiver() override { return &reducer_; }
  BatchSums* batch_sums() override { return &batch_sums_; }
  SOMA_INLINE void finish_gradients() override;
  SOMA_INLINE ReductionTimes reduction_times() const override;
  // In the order of the shards.
  SOMA_INLINE double total_of(std::span<const BatchLoss> losses) override;
  SOMA_INLINE void sum(std::span<std::uint64_t> numbers) override;
  SOMA_INLINE double gradient_norm(Context& context, const Parameters& parameters) override;
  SOMA_INLINE void gather_rows(const Parameters& parameters) override;

  SOMA_INLINE void note_graphs() override;
  SOMA_INLINE void compare_graphs() override;

  // A rank evaluates whole batches: their maxima are its own.
  SOMA_INLINE Evaluation evaluate(Context& context, nn::Task& task, data::BatchSource& source,
                                  PrecisionState& precision) override;

  // ---- checkpoints

  SOMA_INLINE bool saves_parts() const override;
  SOMA_INLINE bool writes_shared_states() const override;
  SOMA_INLINE void check_store(CheckpointStore* store) override;
  // Each rank's rows of the moments. The best checkpoint has no moments.
  SOMA_INLINE void save_parts(CheckpointStore* store, std::optional<std::uint64_t> step,
                              Checkpoint& checkpoint) override;
  SOMA_INLINE bool load(Context& context, CheckpointStore* store, Which which,
                        Checkpoint& checkpoint) override;

 private:
  // nullptr: this rank's device makes no graphs.
  GraphLog* graph_log() const;
  static RowPartition rows_of(const Parameter& parameter);

  class SumsOfRanks final : public BatchSums {
   public:
    explicit SumsOfRanks(ManyRanks& ranks) : ranks_(ranks) {}
    SOMA_INLINE void add(std::span<float> numbers) override;

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
