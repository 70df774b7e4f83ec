#pragma once
// PipelineGradients: StepGradients by a pipeline of stages, one rank each, and replicas of it.
// Weights, losses and norms have the bits of one process. The members are in impl/begin.ipp,
// impl/gradients.ipp, impl/evaluate.ipp and impl/report.ipp.

#include <soma/train/events.hpp>
#include <soma/train/pipeline/planner.hpp>
#include <soma/train/pipeline/ranks.hpp>
#include <soma/train/pipeline/shared.hpp>
#include <soma/train/pipeline/stage.hpp>
#include <soma/train/pipeline/tensors.hpp>
#include <soma/train/step_gradients.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace SOMA_NAMESPACE::train {

// The report of one stage. Times are 0 if nothing was measured before the run.
struct StageReport {
  double parameters = 0;                           // numbers of it
  double predicted_activations = 0;                // bytes of the micro-batches in flight
  double measured_activations = 0;                 // the measured maximum of the same bytes
  double weights = 0, moments = 0, gradients = 0;  // measured bytes; gradients of the last step
  double heap = 0;                                 // bytes of the context's heap at most
};

class PipelineGradients final : public StepGradients {
 public:
  // Errors train.options, parallel.plan, and those of the decision file, which rank 0 reads.
  PipelineGradients(Context& context, nn::Task& task, const TrainerOptions& options,
                    PrecisionState& precision, PipelineRanks& ranks);

  const Parameters& parameters() const override { return own_; }
  SOMA_INLINE const Parameters& model_parameters() const override;
  const PipelinePlan& plan() const { return plan_; }

  SOMA_INLINE void begin(data::BatchSource& batches) override;

  SOMA_INLINE StepSums run(data::BatchSource& batches, const StepRequest& request) override;

  // Adds the sums of squares of each parameter, in the model's order, from all stages.
  SOMA_INLINE double norm() override;
  bool others_step() const override { return any_gradient_; }

  SOMA_INLINE void stepped() override;

  // Computes whole batches, forward only: they stream through the stages, and replicas take turns.
  SOMA_INLINE Evaluation evaluate(data::BatchSource& source) override;

  // Collective: stages exchange their numbers.
  SOMA_INLINE void describe(Report& report) const override;
  std::vector<StageReport> stage_reports() const;
  // The estimate of each stage's memory; empty if nothing was measured before the run.
  const std::vector<MemoryEstimate>& estimates() const { return estimates_; }
  double predicted_activations() const;
  double predicted_seconds() const;
  double measured_seconds() const;
  // Memory of this stage in the last step.
  const StageMemory& memory() const;

  // Gives the first rank (or all ranks) the whole model; the other stages keep their parts.
  // Collective.
  void gather(bool to_all);
  // The whole model, one tensor at a time, for the first rank. Collective.
  StageTensors tensors();

 private:
  void check() const;
  void decide(data::BatchSource& batches);
  void choose_cuts(data::BatchSource& batches, double network);
  double network_rate();
  void take_stage();
  void distribute();
  void drop_unless_shared(std::size_t k) const;
  Evaluation evaluate_batches(data::BatchSource& source);

  // Micro-batch j of this replica: the j-th of this replica's runs of shards.
  data::Batch part_of(const data::Batch& batch, std::size_t j, std::size_t count) const;
  void add_batch(const data::Batch& batch, StepSums& sums) const;
  // Sends the results from the last stage to all: then every stage takes the step, or none.
  void share(const MicrobatchResults& results, const std::vector<double>& counts, StepSums& sums);
  void note_pass(double seconds, std::size_t microbatches);

  static constexpr std::size_t most_passes = 256;

  Context& context_;
  nn::Task& task_;
  const TrainerOptions& options_;
  PrecisionState& precision_;
  PipelineRanks& ranks_;
  PipelineGroups& groups_;
  nn::Pieces pieces_;
  Parameters own_;
  std::vector<std::size_t> indices_{};    // the index of each own parameter among all
  std::vector<std::size_t> stages_of_{};  // the stage of each parameter of the model
  PipelinePlan plan_;
  std::optional<Record> decision_{};         // the file's
  std::vector<MemoryEstimate> estimates_{};  // one for each stage; empty: nothing was measured
  bool planned_ = false, began_ = false;
  bool any_gradient_ = false;       // in any stage, in this step
  std::vector<double> passes_{};    // seconds of the last ones
  std::size_t most_held_ = 0;       // bytes of micro-batches in flight, in any step
  std::size_t most_gradients_ = 0;  // bytes of the gradients that a step keeps
  SharedParameters shared_;
  // True: the owners of shared parameters may have other values than their copies.
  bool copies_are_old_ = true;
  PipelineStage stage_;
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/begin.ipp>
#include <soma/train/pipeline/impl/evaluate.ipp>
#include <soma/train/pipeline/impl/gradients.ipp>
#include <soma/train/pipeline/impl/report.ipp>
#endif
