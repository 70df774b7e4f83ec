#pragma once
// PipelineTrainer: TrainerBase for models that are cut into stages, one rank each, and batches that
// are cut into micro-batches (docs/scaling.md). A header of its own, so that trainings without a
// pipeline do not pay for it. It needs nlohmann-json, for the decision file.
//
// pipeline_options.hpp says what a run is told; in pipeline/ are the ranks as stages and replicas
// (groups.hpp, ranks.hpp), the planner (planner.hpp, begin.hpp), what crosses a cut (links.hpp),
// the executor of one stage (stage.hpp), and StepGradients made of it (gradients.hpp).

#include <soma/train/loop.hpp>
#include <soma/train/pipeline/begin.hpp>
#include <soma/train/pipeline/evaluate.hpp>
#include <soma/train/pipeline/report.hpp>

#include <exception>
#include <optional>

namespace soma::train {

class PipelineTrainer : public TrainerBase {
 public:
  // As TrainerBase, with options.pipeline. Errors beside its own: train.options (partitions,
  // micro-batches and ranks that do not go together; a precision or a piece that needs whole
  // batches), parallel.plan (cuts, a decision file, a limit that no partition keeps), file.read,
  // record.json and record.missing of a decision file.
  PipelineTrainer(Context& context, nn::Task& task, const TrainerOptions& options)
      : TrainerBase(context, task, options, &make_pipeline) {}

  // The model behind fit(), which leaves each rank its own stage: all of it on the first rank, or
  // on all. Every rank calls it.
  void gather(bool to_all = false) { pipeline().gather(to_all); }
  // action(TensorSource&), called on the first rank, has the whole model's parameters one tensor at
  // a time, wherever they are: to save or to hash them where there is no room for all. Every rank
  // calls it, behind fit(); the others serve until the action is over, however it ends. Errors as
  // Communicator, and those of the action.
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
        // What ended the action is the error to hear of.
      }
      throw;
    }
#else
    action(tensors);
#endif
    tensors.finish();
  }
  // Of the weights as they are behind fit(), on all ranks, each of which calls it: with the bits of
  // one process. None: a stop that was requested on any rank has cut it short.
  std::optional<Evaluation> evaluate(data::BatchSource& source, const StopFlag* stop = nullptr) {
    return measure(source, stop);
  }
  // The decision; behind fit().
  const PipelinePlan& plan() { return pipeline().plan(); }
  // Forward and backward of a step in seconds: by the profile (0: there was none), and the median
  // of the last steps. Bytes that micro-batches in flight hold on this rank: by the profile, and
  // those of the last step. Behind fit().
  double predicted_seconds() { return pipeline().predicted_seconds(); }
  double measured_seconds() { return pipeline().measured_seconds(); }
  double predicted_activations() { return pipeline().predicted_activations(); }
  const StageMemory& memory() { return pipeline().memory(); }
  // Of this rank's stage; behind fit().
  const Parameters& own_parameters() { return pipeline().parameters(); }

 private:
  PipelineGradients& pipeline() { return static_cast<PipelineGradients&>(gradients()); }

  static void make_pipeline(Context& context, nn::Task& task, const TrainerOptions& options,
                            PrecisionState& precision, Owned<Ranks>& ranks,
                            Owned<StepGradients>& gradients) {
    ranks = Owned<Ranks>::make<PipelineRanks>(context, options);
    gradients = Owned<StepGradients>::make<PipelineGradients>(context, task, options, precision,
                                                              static_cast<PipelineRanks&>(*ranks));
  }
};

}  // namespace soma::train
