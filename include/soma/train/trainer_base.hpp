#pragma once
// TrainerBase: the loop around a task: gradients, clipping, steps, schedule, evaluation,
// checkpoints. It knows data, gradients, optimizers, checkpoints and progress as interfaces;
// nothing is printed and no signal handled here. The same bits come out for any number of threads
// and of ranks, and for a run that was interrupted and resumed.
//
// Where what stands: options.hpp, what a run is told; loop.hpp, the loop and one step of it;
// step_gradients.hpp, the door to gradients; ranks.hpp, other ranks; progress.hpp and identity.hpp,
// what a checkpoint remembers and compares; best_weights.hpp; events.hpp, what callbacks see.

#include <soma/optim/adamw.hpp>
#include <soma/optim/loss_scaler.hpp>
#include <soma/train/best_weights.hpp>
#include <soma/train/events.hpp>
#include <soma/train/many_ranks.hpp>
#include <soma/train/options.hpp>
#include <soma/train/progress.hpp>
#include <soma/train/stop_flag.hpp>
#include <soma/train/tape_gradients.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

namespace soma::train {

class TrainerBase {
 public:
  // Gives the parameters the precision's types, when all else has gone well. Errors train.options,
  // train.precision, parallel.ranks, operator.value (a schedule's number).
  TrainerBase(Context& context, nn::Task& task, const TrainerOptions& options)
      : TrainerBase(context, task, options, &make_plain) {}

  // Follows the run; stays with the caller.
  void add(Callback& callback) { callbacks_.push_back(&callback); }

  // Trains; evaluates on `held_out` where there is one. Ends early when `stop` is requested: after
  // the step that runs, or before a batch that takes long to read, with a checkpoint. An evaluation
  // is cut short then and counts for nothing; a run that is resumed makes it again. Ranks stop at
  // the same step; where one does not answer any more, the others end with runtime.stopped, rank 0
  // with a checkpoint of the last whole step. Before the first step there is nothing to keep:
  // whatever waits or reads ends with runtime.stopped.
  //
  // Errors train.steps_unknown (a falling schedule over a source that does not know its length),
  // train.not_finite, train.options, checkpoint.identity, checkpoint.operator, and those of the
  // task, the source and the store. With ranks, what ends one ends all: the others get
  // parallel.rank_lost. parallel.mismatch: they were not given the same. checkpoint.parts: their
  // stores do not lead to one place.
  Report fit(data::BatchSource& batches, data::BatchSource* held_out = nullptr,
             const StopFlag* stop = nullptr);

  const TrainerOptions& options() const { return options_; }
  // The learning rate at work: with the rate that options or task say, and the length of the run.
  const optim::Schedule& schedule() const { return schedule_; }
  // Formats at work: statistics of conversions, and what evaluation needs besides weights.
  PrecisionState& precision() { return precision_; }

 protected:
  // Fills in the other ranks and what computes gradients (not where options name the host's own).
  using MakeParts = void (*)(Context& context, nn::Task& task, const TrainerOptions& options,
                             PrecisionState& precision, Owned<Ranks>& ranks,
                             Owned<StepGradients>& gradients);
  TrainerBase(Context& context, nn::Task& task, const TrainerOptions& options, MakeParts make);

  StepGradients& gradients() { return *gradients_; }
  // Nothing where a stop has cut it short (evaluations.hpp).
  std::optional<Evaluation> measure(data::BatchSource& held_out, const StopFlag* stop);

 private:
  static void make_plain(Context& context, nn::Task& task, const TrainerOptions& options,
                         PrecisionState& precision, Owned<Ranks>& ranks,
                         Owned<StepGradients>& gradients);
  void make_optimizer();
  Record identity(const data::BatchSource& batches) const;
  const Parameters& parameters() const { return gradients_->parameters(); }

  // The loop (loop.hpp).
  Report train(data::BatchSource& batches, data::BatchSource* held_out, const StopFlag* stop);
  void begin(data::BatchSource& batches, const data::BatchSource* held_out);
  StepInfo step(const StepSums& sums);
  bool evaluate(data::BatchSource& held_out, Report& report, std::uint64_t epoch,
                const StopFlag* stop);
  bool evaluation_is_due(const data::BatchSource& batches) const;
  bool stoppable() const { return options_.gradients == nullptr || ranks_->count() == 1; }
  template <class Call>
  void tell(const Call& call);
  void finish(const data::BatchSource& batches, Report& report) const;

  // Checkpoints (checkpoints.hpp).
  Checkpoint checkpoint_of(const data::BatchSource& batches);
  void be_patient(const StopFlag* stop);
  void save(const data::BatchSource& batches, const StopFlag* stop);
  void save_alone(const data::BatchSource& batches, const std::exception& reason) noexcept;
  void resume(data::BatchSource& batches);
  void load(const Checkpoint& checkpoint, data::BatchSource& batches);

  Context& context_;
  nn::Task& task_;
  TrainerOptions options_;
  optim::Schedule schedule_;
  std::vector<Callback*> callbacks_;
  PrecisionState precision_;
  Owned<Ranks> ranks_{};
  std::optional<optim::AdamW> own_optimizer_{};
  optim::Optimizer* optimizer_ = nullptr;
  Owned<StepGradients> own_gradients_{};
  StepGradients* gradients_ = nullptr;
  bool has_store_ = false;  // rank 0 has one
  optim::LossScaler scaler_{};
  Progress progress_{};
  BestWeights best_{};
  // How long other ranks may take to answer when a stop is requested.
  double patience_seconds_ = 0;
  bool between_steps_ = false;    // what a checkpoint holds belongs together
  std::uint64_t saved_at_ = 0;    // step of the newest checkpoint of this call
  std::exception_ptr failure_{};  // what a callback threw
};

}  // namespace soma::train
