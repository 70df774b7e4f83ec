#pragma once
// Ranks: the other ranks of a run, as a trainer sees them. This class is a rank by itself, for
// which every member does what one rank needs: mostly nothing. ManyRanks (many_ranks.hpp) has
// others.

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

namespace soma::train {

// Of a batch: its mean loss; where ranks share it, the sum of this rank's part. And how many losses
// the whole batch has.
struct BatchLoss {
  float value = 0;
  double count = 0;
};

class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks() = default;

  virtual int count() const { return 1; }
  virtual bool first() const { return true; }
  virtual void barrier() {}
  // Tells the others that this rank cannot go on.
  virtual void abort(std::string_view /*reason*/) {}
  virtual bool any(bool mine) { return mine; }
  // Waits for other ranks end with runtime.stopped so many seconds after the request.
  virtual void give_up_after(const StopFlag*, double /*seconds*/) {}

  // ---- beginning and resuming

  // Error train.options: a task, or an optimizer (nullptr: any will do), that ranks cannot share.
  virtual void check(const nn::Task&, const optim::Optimizer*) const {}
  // Tells precision and optimizer what they have to know of ranks, before the first step.
  virtual void join(PrecisionState&, optim::Optimizer&) {}
  // Whether all ranks are about to do the same, which run.make() describes (a pass over the data);
  // then they get rank 0's weights. Error parallel.mismatch.
  struct RunDescription {
    virtual ~RunDescription() = default;
    virtual Record make() const = 0;
  };
  virtual void begin(const RunDescription&, const Parameters&) {}
  virtual bool from_first(bool mine) { return mine; }

  // ---- a step

  // Before the first batch of a step.
  virtual void begin_step(std::uint64_t /*step*/) {}
  // What this rank computes of a batch. Error parallel.ranks (fewer shards than ranks).
  virtual data::Batch part_of(const data::Batch& batch) { return batch; }
  // What backward multiplies this rank's loss by, so that the gradients of all ranks add up to
  // `whole` times that of the batch's mean loss.
  virtual float weight_of(float whole, double /*count*/) const { return whole; }
  // TapeOptions::receiver and TapeOptions::batch_sums.
  virtual GradientReceiver* receiver() { return nullptr; }
  virtual BatchSums* batch_sums() { return nullptr; }
  // Waits until the gradients of all ranks have met.
  virtual void finish_gradients() {}
  virtual ReductionTimes reduction_times() const { return {}; }
  // The sum of the losses of batches, on all ranks.
  virtual double total_of(std::span<const BatchLoss> losses) {
    double total = 0;
    for (const BatchLoss& loss : losses)
      if (loss.count != 0) total += static_cast<double>(loss.value) * loss.count;
    return total;
  }
  virtual void sum(std::span<std::uint64_t> /*numbers*/) {}
  virtual double gradient_norm(Context& context, const Parameters& parameters) {
    return optim::gradient_norm(context, parameters);
  }
  // After the optimizer's step: from each rank its rows of every parameter, to all.
  virtual void gather_rows(const Parameters&) {}

  virtual Evaluation evaluate(Context& context, nn::Task& task, data::BatchSource& source,
                              PrecisionState& precision) {
    return train::evaluate(context, task, source, &precision);
  }

  // Around a step whose graphs are compared (TrainerOptions::same_graphs). Error parallel.mismatch.
  virtual void note_graphs() {}
  virtual void compare_graphs() {}

  // ---- checkpoints

  // Whether several ranks write parts of the states, so that each has a store, to the same place.
  virtual bool saves_parts() const { return false; }
  // Whether every rank can write parts where rank 0 does: shows before hours have passed.
  virtual void check_store(CheckpointStore*) {}
  // Writes what this rank has to write of its states, and takes out of the checkpoint what is in
  // parts now: the rest is the first rank's to save. `step`: none of the best one.
  virtual void save_parts(CheckpointStore*, std::optional<std::uint64_t> /*step*/, Checkpoint&) {}
  // What this rank needs of the newest checkpoint, or of the best one; false: there is none.
  enum class Which : std::uint8_t { latest, best };
  virtual bool load(Context& context, CheckpointStore* store, Which which, Checkpoint& checkpoint) {
    return which == Which::latest ? store->load_latest(context, checkpoint)
                                  : store->load_best(context, checkpoint);
  }
};

}  // namespace soma::train
