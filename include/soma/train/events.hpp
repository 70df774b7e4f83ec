#pragma once
// The events that a trainer reports to its callbacks, and the report that it returns.

#include <soma/train/evaluation.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::train {

struct RunInfo {
  std::uint64_t first_step = 0;  // 0, or where a resumed run goes on
  std::uint64_t steps = 0;       // steps of the whole run; 0: not known
  std::uint64_t parameters = 0;  // numbers that are trained
  std::uint64_t epochs = 0;
  int threads = 1;  // threads of this rank
  int ranks = 1;
  std::string best_metric = "loss";  // by which evaluations are compared
};

struct StepInfo {
  std::uint64_t step = 0;   // from 1: how many are done
  std::uint64_t epoch = 0;  // from 0
  double loss = 0;          // mean, as the task counts (Task::loss_count); 0 where nothing counts
  double gradient_norm = 0;
  double learning_rate = 0;
  std::uint64_t tokens = 0, sequences = 0;
  std::uint64_t longest = 0;                  // tokens of the longest sequence
  std::uint64_t classified = 0, correct = 0;  // sequences with scores and a label, and of these
  double seconds = 0;                         // the time of the whole step, waiting included
  double wait_seconds = 0;                    // for the batch
  double useful_flops = 0;                    // 0: not known; of all ranks
  // The seconds in which sums of gradients were travelling between ranks, and the part of them in
  // which this rank had nothing else to do: the rest was hidden behind backward.
  double reduction_seconds = 0, reduction_wait_seconds = 0;
  bool skipped = false;  // its gradients were not finite
};

struct EvaluationInfo {
  std::uint64_t step = 0, epoch = 0;
  const metrics::Classification* metrics = nullptr;  // for tasks with classes
  const metrics::Values* values = nullptr;           // values of the task's metrics
  double loss = 0, seconds = 0;
  bool best = false;  // so far
};

// The report of a whole run. Rates count the training steps of this call, not evaluations or
// checkpoints.
struct Report {
  std::uint64_t steps = 0, first_step = 0, epochs = 0;
  std::uint64_t tokens = 0, sequences = 0;
  double train_seconds = 0;  // in steps
  double total_seconds = 0;  // with evaluations and checkpoints
  double wait_seconds = 0;   // for batches
  double useful_flops = 0;
  double reduction_seconds = 0, reduction_wait_seconds = 0;  // as in StepInfo
  double loss = 0;                                           // the loss of the last step
  bool interrupted = false, stopped_early = false;
  bool complete = false;  // all steps were made; interrupted then: the last evaluation was not
  std::uint64_t skipped_steps = 0;
  bool evaluated = false;
  // The evaluation of the weights at the end of the run, if they were evaluated.
  double evaluation_loss = 0;
  metrics::Values values{};
  metrics::Classification metrics{};  // for tasks with classes
  // The criterion that chose the weights, "loss" or a metric's name; empty: the weights of the last
  // step.
  std::string best_metric{};
  std::uint64_t peak_resident_bytes = 0;
  std::string pipeline{};  // a table of its stages, where there is one
  double price_per_hour = 0;

  void take(Evaluation evaluation);
  // The value of a metric. Error train.options: the run's task has no metric of that name.
  double metric(std::string_view name) const;

  double steps_per_second() const;
  double tokens_per_second() const;
  double useful_gflops() const;
  // The share of the reduction that was hidden behind backward.
  double reduction_hidden() const {
    return reduction_seconds > 0 ? 1 - reduction_wait_seconds / reduction_seconds : 0;
  }
  double cost() const { return price_per_hour * total_seconds / 3600; }

 private:
  double per_second(double amount) const { return train_seconds > 0 ? amount / train_seconds : 0; }
};

// Follows a run, and may end it, but cannot change the training otherwise. An exception of
// on_step(), on_evaluation() or on_checkpoint() loses no work: the run ends after this step with a
// checkpoint, as when it is stopped, and then fit() throws the exception.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_start(const RunInfo&) {}
  virtual void on_step(const StepInfo&) {}
  virtual void on_evaluation(const EvaluationInfo&) {}
  virtual void on_checkpoint(std::uint64_t /*step*/) {}
  virtual void on_end(const Report&) {}

  // For the trainer: true if stop_run() was called since the last call.
  bool take_stop();
  bool take_save();

 protected:
  // Call it from on_step() or on_evaluation(): the run ends after this step as by patience
  // (Report::stopped_early), with its evaluation, checkpoint and best weights. On several ranks it
  // is enough that one rank calls it.
  void stop_run() { stop_ = true; }
  // Call it from the same members: a checkpoint is written after this step, if the run has a store.
  // On several ranks it is enough that one rank calls it.
  void save_run() { save_ = true; }

 private:
  bool stop_ = false, save_ = false;
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/events.ipp>
#endif
