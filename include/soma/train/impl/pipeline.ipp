#pragma once
// The functions of pipeline.hpp.

#include <soma/train/pipeline.hpp>

#include <exception>
#include <optional>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void PipelineTrainer::gather(bool to_all) { pipeline().gather(to_all); }

SOMA_INLINE std::optional<Evaluation> PipelineTrainer::evaluate(data::BatchSource& source,
                                                                const StopFlag* stop) {
  return measure(source, stop);
}

SOMA_INLINE const PipelinePlan& PipelineTrainer::plan() { return pipeline().plan(); }

SOMA_INLINE double PipelineTrainer::predicted_seconds() { return pipeline().predicted_seconds(); }

SOMA_INLINE double PipelineTrainer::measured_seconds() { return pipeline().measured_seconds(); }

SOMA_INLINE double PipelineTrainer::predicted_activations() {
  return pipeline().predicted_activations();
}

SOMA_INLINE const std::vector<MemoryEstimate>& PipelineTrainer::estimates() {
  return pipeline().estimates();
}

SOMA_INLINE const StageMemory& PipelineTrainer::memory() { return pipeline().memory(); }

SOMA_INLINE const Parameters& PipelineTrainer::own_parameters() { return pipeline().parameters(); }

SOMA_INLINE PipelineGradients& PipelineTrainer::pipeline() {
  return static_cast<PipelineGradients&>(gradients());
}

SOMA_INLINE void PipelineTrainer::make_pipeline(Context& context, nn::Task& task,
                                                const TrainerOptions& options,
                                                PrecisionState& precision, Owned<Ranks>& ranks,
                                                Owned<StepGradients>& gradients) {
  ranks = Owned<Ranks>::make<PipelineRanks>(context, options);
  gradients = Owned<StepGradients>::make<PipelineGradients>(context, task, options, precision,
                                                            static_cast<PipelineRanks&>(*ranks));
}

}  // namespace SOMA_NAMESPACE::train
