#pragma once
// PipelineTrainer: TrainerBase for models that are cut into stages, one rank each, and batches that
// are cut into micro-batches (docs/scaling.md). It has a header of its own, so that trainings
// without a pipeline do not pay for it. It needs nlohmann-json, for the decision file.
//
// pipeline_options.hpp has the options. pipeline/ has the ranks as stages and replicas (groups.hpp,
// ranks.hpp), the planner (planner.hpp), the messages across a cut (links.hpp), the executor
// of one stage (stage.hpp), and the StepGradients that combine them (gradients.hpp).

#include <soma/train/pipeline/gradients.hpp>
#include <soma/train/trainer_base.hpp>

#include <exception>
#include <optional>
#include <vector>

namespace SOMA_NAMESPACE::train {

class PipelineTrainer : public TrainerBase {
 public:
  // As TrainerBase, with options.pipeline. Further errors: train.options (partitions, micro-batches
  // and ranks that do not fit together; a precision or a piece that needs whole batches),
  // parallel.plan (cuts, a decision file, a limit that no partition keeps), file.read, and
  // record.json and record.missing of a decision file.
  PipelineTrainer(Context& context, nn::Task& task, const TrainerOptions& options)
      : TrainerBase(context, task, options, &make_pipeline) {}

  // After fit(), which leaves each rank its own stage: collects the whole model on the first rank,
  // or on all ranks. Collective: every rank calls it.
  void gather(bool to_all = false);
  // Calls action(TensorSource&) on the first rank, with the whole model's parameters one tensor at
  // a time: to save or hash a model that does not fit in memory. Collective, after fit(); the other
  // ranks serve until the action ends, with or without an error. Errors as of Communicator, and
  // those of the action.
  template <class Action>
  void on_first(const Action& action) {
    StageTensors tensors = pipeline().tensors();
    if (!tensors.first()) return tensors.serve();
#if SOMA_HAS_EXCEPTIONS
    try {
      action(tensors);
    } catch (...) {
      try {
        tensors.finish();
      } catch (const std::exception&) {
        // The action's own error is the one to report.
      }
      throw;
    }
#else
    action(tensors);
#endif
    tensors.finish();
  }
  // Evaluates the weights after fit(), with the bits of one process. Collective. Returns nothing if
  // a stop that was requested on any rank has cut it short.
  std::optional<Evaluation> evaluate(data::BatchSource& source, const StopFlag* stop = nullptr);
  // The plan in use; after fit().
  const PipelinePlan& plan();
  // predicted_seconds, measured_seconds: forward and backward of a step, by the profile (0: no
  // profile), and the median of the last steps. predicted_activations, measured_activations: bytes
  // of micro-batches in flight on this rank, by the profile, and in the last step. After fit().
  double predicted_seconds();
  double measured_seconds();
  double predicted_activations();
  // The estimate of each stage's memory; empty: nothing was measured (given cuts). After fit().
  const std::vector<MemoryEstimate>& estimates();
  const StageMemory& memory();
  // The parameters of this rank's stage; after fit().
  const Parameters& own_parameters();

 private:
  PipelineGradients& pipeline();

  static void make_pipeline(Context& context, nn::Task& task, const TrainerOptions& options,
                            PrecisionState& precision, Owned<Ranks>& ranks,
                            Owned<StepGradients>& gradients);
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/pipeline.ipp>
#endif
