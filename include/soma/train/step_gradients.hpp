#pragma once
// StepGradients: the door between a trainer and whatever turns batches into gradients. The loop,
// optimizer, clipping, schedule, checkpoints and evaluation stand on this side of it and do not
// know what is behind: one process, ranks that share each batch (tape_gradients.hpp), or an
// implementation of the host's (TrainerOptions::gradients).

#include <soma/autograd/parameter.hpp>
#include <soma/data/batch.hpp>
#include <soma/parallel/gradient_reducer.hpp>
#include <soma/train/evaluation.hpp>

#include <cstddef>
#include <cstdint>

namespace soma::train {

struct Report;  // train/events.hpp

// One step, as its gradients are asked for.
struct StepRequest {
  std::uint64_t step = 0;         // from 0
  std::uint64_t first_batch = 0;  // number of its first batch in the run: what dropout draws by
  std::size_t batches = 1;        // at most: TrainerOptions::accumulate
  float loss_scale = 1;           // losses are multiplied by it before backward
};

// What the batches of a step came to, on all ranks together.
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
  virtual ~StepGradients() = default;
  StepGradients(const StepGradients&) = delete;
  StepGradients& operator=(const StepGradients&) = delete;

  // The parameters that are stepped, saved and loaded here: the task's, or those of a part of it.
  virtual const Parameters& parameters() const = 0;
  // All that the run trains, wherever it is: of those that are elsewhere the values may be missing.
  virtual const Parameters& model_parameters() const { return parameters(); }

  // At the start of a run, when all ranks have agreed to it: may read some batches of the source,
  // which is put back then.
  virtual void begin(data::BatchSource& /*batches*/) {}

  // Reads up to request.batches batches and leaves in each parameter the sum over them of
  //   loss_scale * (request.batches == 1 ? 1 : count) * (gradient of the batch's mean loss),
  // where count is the batch's Task::loss_count(). Gradients of a step before are cleared first.
  virtual StepSums run(data::BatchSource& batches, const StepRequest& request) = 0;

  // The norm of all gradients of the model, wherever they are.
  virtual double norm() = 0;

  // The optimizer has stepped these parameters.
  virtual void stepped() {}

  // A pass over the source without training.
  virtual Evaluation evaluate(data::BatchSource& source) = 0;

  // Adds what it knows of the run to the report.
  virtual void describe(Report& /*report*/) const {}

 protected:
  StepGradients() = default;
};

}  // namespace soma::train
