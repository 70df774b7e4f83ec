#pragma once
// StepGradients: the interface between a trainer and the code that turns batches into gradients.
// The loop, optimizer, clipping, schedule, checkpoints and evaluation use only this interface.
// Behind it is one process, or ranks that share each batch (tape_gradients.hpp), or an
// implementation of the host's (TrainerOptions::gradients).

#include <soma/autograd/parameter.hpp>
#include <soma/data/batch.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/parallel/gradient_reducer.hpp>
#include <soma/train/evaluation.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::train {

struct Report;  // train/events.hpp

// The description of one step whose gradients are requested.
struct StepRequest {
  std::uint64_t step = 0;         // from 0
  std::uint64_t first_batch = 0;  // number of its first batch in the run: what dropout draws by
  std::size_t batches = 1;        // at most: TrainerOptions::accumulate
  float loss_scale = 1;           // losses are multiplied by it before backward
  // Set: steps each parameter at that rate as soon as its gradient is complete, and clears the
  // gradient (TrainerOptions::step_early).
  optim::Optimizer* early = nullptr;
  double rate = 0;
};

// The sums over the batches of a step, on all ranks together.
struct StepSums {
  std::uint64_t batches = 0;    // 0: the epoch had none left
  double loss = 0, losses = 0;  // sum of losses, and how many the task counts
  std::uint64_t sequences = 0, tokens = 0;
  std::uint64_t longest = 0;  // tokens of the longest sequence
  std::uint64_t classified = 0, correct = 0;
  double wait_seconds = 0, flops = 0;
  ReductionTimes reduction{};
};

class StepGradients {
 public:
  SOMA_INLINE virtual ~StepGradients() = default;
  StepGradients(const StepGradients&) = delete;
  StepGradients& operator=(const StepGradients&) = delete;

  // The parameters that are stepped, saved and loaded in this process: the task's, or a part of
  // them.
  virtual const Parameters& parameters() const = 0;
  // All parameters that the run trains. Parameters of other processes may have no values here.
  SOMA_INLINE virtual const Parameters& model_parameters() const;

  // Called at the start of a run, when all ranks have agreed on it. It may read some batches of the
  // source, whose position is restored afterwards.
  virtual void begin(data::BatchSource& /*batches*/) {}

  // Reads up to request.batches batches and stores in each parameter the sum over these batches of
  //   loss_scale * (request.batches == 1 ? 1 : count) * (gradient of the batch's mean loss),
  // where count is the batch's Task::loss_count(). It clears the gradients of earlier steps first.
  virtual StepSums run(data::BatchSource& batches, const StepRequest& request) = 0;

  // The norm of all gradients of the model, in all processes.
  virtual double norm() = 0;
  // Asked after norm(). True: some process has a gradient to step, though this one may have none.
  virtual bool others_step() const { return false; }

  // The optimizer has stepped these parameters.
  virtual void stepped() {}

  // A pass over the source without training.
  virtual Evaluation evaluate(data::BatchSource& source) = 0;

  // Adds its own lines to the report of the run.
  virtual void describe(Report& /*report*/) const {}

 protected:
  StepGradients() = default;
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/step_gradients.ipp>
#endif
