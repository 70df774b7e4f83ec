#pragma once
// TrainerBase: the loop around a task: gradients, clipping, steps, schedule, evaluation,
// checkpoints. It knows data, gradients, optimizers, checkpoints and progress as interfaces; it
// prints nothing and handles no signal. The results have the same bits for any number of threads
// and ranks, and for a run that was interrupted and resumed.
//
// Files: options.hpp, the options of a run; step_gradients.hpp, the interface to gradients;
// ranks.hpp, other ranks; progress.hpp and identity.hpp, the numbers that a checkpoint stores and
// compares; best_weights.hpp and weight_average.hpp; events.hpp, the events for callbacks. The
// members are in impl/trainer_base.ipp, impl/loop.ipp, impl/checkpoints.ipp and
// impl/evaluations.ipp.

#include <soma/optim/adamw.hpp>
#include <soma/optim/loss_scaler.hpp>
#include <soma/train/best_weights.hpp>
#include <soma/train/events.hpp>
#include <soma/train/many_ranks.hpp>
#include <soma/train/options.hpp>
#include <soma/train/progress.hpp>
#include <soma/train/stop_flag.hpp>
#include <soma/train/tape_gradients.hpp>
#include <soma/train/weight_average.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::train {

namespace detail {

// Converts matrices to the type in which the precision stores them.
void give_precision(Context& context, const Parameters& parameters, const Precision& precision);

}  // namespace detail

class TrainerBase {
 public:
  // Converts the parameters to the precision's types once all checks have passed. Errors
  // train.options, train.precision, parallel.ranks, operator.value (a setting of the schedule).
  TrainerBase(Context& context, nn::Task& task, const TrainerOptions& options)
      : TrainerBase(context, task, options, &make_plain) {}

  // Adds a callback, which stays with the caller.
  void add(Callback& callback);

  // Trains, and evaluates on the validation source `validation` if it is given. Ends early when
  // `stop` is requested: after the running step, or before a batch that takes long to read, with a
  // checkpoint. An evaluation is then cut short and dropped; a resumed run makes it again. Ranks
  // stop at the same step. If one rank no longer answers, the others end with runtime.stopped, and
  // rank 0 with a checkpoint of the last whole step. Before the first step there is nothing to
  // save: waiting or reading ends with runtime.stopped.
  //
  // Errors train.steps_unknown (linear or cosine decay over a source of unknown length),
  // train.not_finite, train.options, checkpoint.step (the store has checkpoints, but `resume` is
  // not set), checkpoint.identity, checkpoint.operator, and those of the task, the source and the
  // store. With ranks, an error on one rank ends all: the others get parallel.rank_lost.
  // parallel.mismatch: the ranks were given different settings. checkpoint.parts: the ranks' stores
  // are at different places.
  Report fit(data::BatchSource& batches, data::BatchSource* validation = nullptr,
             const StopFlag* stop = nullptr);

  const TrainerOptions& options() const { return options_; }
  // The schedule in use, with the learning rate of options or task, and the length of the run.
  const optim::Schedule& schedule() const { return schedule_; }
  // The formats in use, with statistics of conversions. Evaluation needs them beside the weights.
  PrecisionState& precision() { return precision_; }

 protected:
  // Fills in the other ranks and the implementation of gradients (unless options name the host's
  // own).
  using MakeParts = void (*)(Context& context, nn::Task& task, const TrainerOptions& options,
                             PrecisionState& precision, Owned<Ranks>& ranks,
                             Owned<StepGradients>& gradients);
  TrainerBase(Context& context, nn::Task& task, const TrainerOptions& options, MakeParts make);

  StepGradients& gradients() { return *gradients_; }
  // Returns nothing if a stop has cut the evaluation short.
  std::optional<Evaluation> measure(data::BatchSource& validation, const StopFlag* stop);

 private:
  static void make_plain(Context& context, nn::Task& task, const TrainerOptions& options,
                         PrecisionState& precision, Owned<Ranks>& ranks,
                         Owned<StepGradients>& gradients);
  void make_optimizer();
  Record identity(const data::BatchSource& batches) const;
  bool validation_decides() const;
  const Parameters& parameters() const;

  enum class Stop : std::uint8_t { no, early, interrupted };
  struct AfterStep {
    bool save = false;
    Stop stop = Stop::no;
  };

  // The loop (impl/loop.ipp, impl/evaluations.ipp).
  Report train(data::BatchSource& batches, data::BatchSource* validation, const StopFlag* stop);
  void begin(data::BatchSource& batches, const data::BatchSource* validation);
  void tell_start();
  bool out_of_patience() const;
  bool steps_remain() const;
  void take_step(const StepSums& sums, const data::BatchSource& batches, std::uint64_t epoch,
                 std::int64_t start, Report& report, const StopFlag* stop);
  StepInfo step(const StepSums& sums);
  void say_precision();
  bool scales_loss() const;
  double next_rate() const;
  bool evaluates_after(const data::BatchSource& batches, std::uint64_t epoch, bool stepped) const;
  AfterStep after_step(bool stepped, bool cut, const StopFlag* stop);
  void end_run(const data::BatchSource& batches, data::BatchSource* validation, Report& report,
               const StopFlag* stop);
  void choose_weights(data::BatchSource* validation, Report& report, const StopFlag* stop);
  bool evaluate(data::BatchSource& validation, Report& report, std::uint64_t epoch,
                const StopFlag* stop);
  bool evaluation_is_due(const data::BatchSource& batches) const;
  bool stoppable() const;
  template <class Call>
  void tell(const Call& call);
  void finish(const data::BatchSource& batches, Report& report) const;

  // Checkpoints (impl/checkpoints.ipp).
  Checkpoint checkpoint_of(const data::BatchSource& batches);
  void be_patient(const StopFlag* stop);
  void save(const data::BatchSource& batches, const StopFlag* stop);
  void save_alone(const data::BatchSource& batches, const Error& reason) noexcept;
  void resume(data::BatchSource& batches);
  void load(Checkpoint checkpoint, data::BatchSource& batches);

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
  Parameters trained_{};                          // this rank's; in its checkpoints
  std::optional<std::uint64_t> frozen_values_{};  // a hash of the model's others, if there are any
  bool has_store_ = false;                        // rank 0 has one
  std::string validation_{};                      // the validation rows, for checkpoints
  optim::LossScaler scaler_;
  Progress progress_{};
  BestWeights best_{};
  WeightAverage average_;
  // The seconds that other ranks have to answer after a stop request.
  double patience_seconds_ = 0;
  bool precision_is_new_ = true;  // the log has not said what it does
  bool between_steps_ = false;    // true: the parts of a checkpoint belong to the same step
  std::uint64_t saved_at_ = 0;    // step of the newest checkpoint of this call
  std::exception_ptr failure_{};  // thrown by a callback
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/checkpoints.ipp>
#include <soma/train/impl/evaluations.ipp>
#include <soma/train/impl/loop.ipp>
#include <soma/train/impl/trainer_base.ipp>
#endif
