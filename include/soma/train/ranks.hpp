#pragma once
// Ranks: the other ranks of a run, as a trainer sees them. This class stands for a single process:
// its members do what one rank needs, which is mostly nothing. ManyRanks (many_ranks.hpp)
// implements several ranks.

#include <soma/autograd/parameter.hpp>
#include <soma/data/batch.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/nn/task.hpp>
#include <soma/optim/gradients.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/parallel/gradient_reducer.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/state/checkpoint.hpp>
#include <soma/train/evaluate.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace SOMA_NAMESPACE::train {

// The mean loss of a batch, or, if ranks share the batch, the sum of this rank's part; and the
// number of losses in the whole batch.
struct BatchLoss {
  float value = 0;
  double count = 0;
};

class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  SOMA_INLINE virtual ~Ranks() = default;

  virtual int count() const { return 1; }
  virtual bool first() const { return true; }
  virtual void barrier() {}
  // Tells the other ranks that this rank cannot continue.
  virtual void abort(std::string_view /*reason*/) {}
  virtual bool any(bool mine) { return mine; }
  // Waiting for other ranks ends with runtime.stopped this number of seconds after the stop
  // request.
  virtual void give_up_after(const StopFlag*, double /*seconds*/) {}

  // ---- beginning and resuming

  // Error train.options: a task, or an optimizer (nullptr: any), that ranks cannot share.
  virtual void check(const nn::Task&, const optim::Optimizer*) const {}
  // Prepares precision and optimizer for several ranks, before the first step.
  virtual void join(PrecisionState&, optim::Optimizer&) {}
  // Checks that all ranks are about to run the same training, which run.make() describes (a pass
  // over the data); then sends them rank 0's weights, but for frozen ones. Error parallel.mismatch.
  struct RunDescription {
    SOMA_INLINE virtual ~RunDescription() = default;
    virtual Record make() const = 0;
  };
  virtual void begin(const RunDescription&, const Parameters&) {}
  virtual bool from_first(bool mine) { return mine; }
  // The hash of the whole model's frozen parameters, from that of this rank's. Error
  // parallel.mismatch: ranks with the same parameters have other numbers in them.
  virtual std::uint64_t hash_of_all(std::uint64_t mine) { return mine; }

  // ---- a step

  // Called before the first batch of a step. `mapping`: of draws in transit that are automatic.
  virtual void begin_step(std::uint64_t /*step*/, DrawMapping /*mapping*/) {}
  // This rank's part of a batch. Error parallel.ranks: fewer shards than ranks.
  virtual data::Batch part_of(const data::Batch& batch) { return batch; }
  // The factor of this rank's loss in backward, so that the gradients of all ranks add up to
  // `whole` times the gradient of the batch's mean loss.
  virtual float weight_of(float whole, double /*count*/) const { return whole; }
  // TapeOptions::receiver and TapeOptions::batch_sums.
  virtual GradientReceiver* receiver() { return nullptr; }
  virtual BatchSums* batch_sums() { return nullptr; }
  // Waits until the gradients of all ranks have been added.
  virtual void finish_gradients() {}
  SOMA_INLINE virtual ReductionTimes reduction_times() const;
  // The sum of the losses of batches over all ranks.
  SOMA_INLINE virtual double total_of(std::span<const BatchLoss> losses);
  virtual void sum(std::span<std::uint64_t> /*numbers*/) {}
  SOMA_INLINE virtual double gradient_norm(Context& context, const Parameters& parameters);
  // After the optimizer's step: sends each rank's rows of every parameter to all ranks.
  virtual void gather_rows(const Parameters&) {}

  SOMA_INLINE virtual Evaluation evaluate(Context& context, nn::Task& task,
                                          data::BatchSource& source, PrecisionState& precision);

  // Around a step whose graphs are compared (TrainerOptions::same_graphs). Error parallel.mismatch.
  virtual void note_graphs() {}
  virtual void compare_graphs() {}

  // ---- checkpoints

  // True if several ranks write parts of the states: then each rank has a store, at the same place.
  virtual bool saves_parts() const { return false; }
  // True for one of the ranks that have the same weights and share the optimizer's states: what is
  // the same on these ranks goes into its part.
  virtual bool writes_shared_states() const { return true; }
  // Tests before the first step if every rank can write parts at rank 0's place.
  virtual void check_store(CheckpointStore*) {}
  // Writes this rank's parts of the states, and removes them from the checkpoint: the first rank
  // saves the rest. `step`: not set for the best checkpoint.
  virtual void save_parts(CheckpointStore*, std::optional<std::uint64_t> /*step*/, Checkpoint&) {}
  // Loads this rank's share of the newest checkpoint, or of the best one; returns false if there is
  // none.
  enum class Which : std::uint8_t { latest, best };
  SOMA_INLINE virtual bool load(Context& context, CheckpointStore* store, Which which,
                                Checkpoint& checkpoint);
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/ranks.ipp>
#endif
