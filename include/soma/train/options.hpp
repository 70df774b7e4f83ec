#pragma once
// TrainerOptions: all options of a training run.

#include <soma/numeric/precision.hpp>
#include <soma/optim/loss_scaler.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/optim/schedule.hpp>
#include <soma/state/checkpoint.hpp>
#include <soma/train/pipeline_options.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace SOMA_NAMESPACE {
class Communicator;  // parallel/communicator.hpp
}

namespace SOMA_NAMESPACE::train {

class StepGradients;  // train/step_gradients.hpp

// The reaction to a step whose loss or gradient norm is not finite.
enum class NonFinite : std::uint8_t {
  stop,  // error train.not_finite; weights are those before the step
  skip,  // the step changes nothing and is counted; the 25th in a row is an error all the same
};

// An exponential moving average of the weights: at step `from` (0: after the first step) it is a
// copy of them; then, every `every` steps, average += (1 - decay) (weight - average), in fp32.
struct AverageOptions {
  double decay = 0.999;  // above 0 and below 1
  std::uint64_t from = 0;
  std::uint64_t every = 1;  // at least 1
};
void fields(FieldVisitor& visitor, AverageOptions& options);

struct TrainerOptions {
  std::uint64_t epochs = 1;     // at most 2^24; 0: as many as max_steps needs
  std::uint64_t max_steps = 0;  // 0: as many as the epochs have
  std::size_t batch_size = 32;  // for sources that the trainer makes
  std::size_t accumulate = 1;   // batches whose gradients make one step
  // Not set: schedule.rate, and if that is not set, the task's own learning rate
  // (Task::learning_rate()). Error train.options if both are set.
  std::optional<double> learning_rate{};
  optim::Schedule schedule{.decay = optim::Decay::linear};
  // The host's own optimizer of the task's parameters; it stays with the caller. nullptr: an AdamW
  // with the next two options (an error beside an optimizer), with states in the precision's format
  // for moments.
  optim::Optimizer* optimizer = nullptr;
  std::optional<double> weight_decay{};  // none: 0.01
  bool decay_all = false;                // biases and norms as well
  double clip = 1;                       // largest norm of all gradients; 0: any
  std::uint64_t seed = 0;                // for dropout, the order of the data, stochastic rounding
  Precision precision = Precision::fp32();
  // Not set: as the precision says (Precision::loss_scaling), with a scale that begins at 65536.
  // LossScalerOptions::fixed() is a scale that never changes. Errors as of LossScaler.
  std::optional<optim::LossScalerOptions> loss_scaling{};
  NonFinite non_finite = NonFinite::stop;
  // True: each parameter is stepped once its gradient is complete, while backward goes on, and
  // gives the gradient back: the same bits, and at most a few gradients exist at once. Wants one
  // process, clip 0, one batch a step (accumulate), no loss scale, NonFinite::stop and no
  // `gradients` of the host's own; else error train.options. The optimizer's step() is called for
  // one variable at a time. After a gradient that is not finite (train.not_finite) parameters
  // nearer to the loss have been stepped.
  bool step_early = false;
  // Set: evaluations measure averaged weights, keep_best keeps them, and a run that was not
  // interrupted ends with them; steps go on from the weights themselves. Running statistics of
  // batch norms are averaged, too. Costs 4 bytes a weight on every rank, also with shard_optimizer,
  // and a pass over weights and average.
  std::optional<AverageOptions> average{};

  std::uint64_t evaluate_every = 0;  // steps; 0: after each epoch
  // The criterion for a better evaluation: "loss", or the name of one of the task's metrics
  // ("accuracy", "macro_f1", "auc", "mse" ...). Best weights, patience and a plateau schedule use
  // it.
  std::string best_metric = "loss";
  // Evaluations worse than the best, after which a run ends; 0: never. An evaluation that equals
  // the best does not count, and the smallest improvement starts the count anew; the schedule has a
  // patience and a threshold of its own (optim::Schedule).
  std::uint64_t patience = 0;
  bool keep_best = false;  // ends with the weights that evaluated best

  // Where checkpoints are saved; nullptr: nowhere, and then checkpoint_every and resume are errors.
  // A run that does not resume wants an empty store (checkpoint.step).
  CheckpointStore* checkpoints = nullptr;
  std::uint64_t checkpoint_every = 0;  // steps; 0: at the end and when stopped
  bool resume = false;  // from the newest checkpoint; from the beginning where there is none
  // A resumed run keeps the warm-up of its checkpoint, whatever the schedule says. For a host whose
  // warm-up follows from the length of the run: the run may be resumed for longer.
  bool keep_warmup = false;
  double price_per_hour = 0;  // the machine's, in any currency; 0: the report shows no cost

  // The communicator of ranks that train together (docs/scaling.md). Their number is a power of
  // two, at most the shards of a batch. Each rank has a trainer with the same options and a source
  // of the same batches, and computes its shards of each batch. Only rank 0 needs a store of
  // checkpoints; with shard_optimizer or several stages all ranks need a store at the same place,
  // such as CheckpointPartFolder. nullptr: a single process.
  Communicator* communicator = nullptr;
  std::size_t reduce_bucket_bytes = std::size_t{4}
                                    << 20;  // bytes of gradients that travel together
  bool overlap = true;                      // gradients travel while backward goes on
  bool shard_optimizer = false;  // each rank keeps moments and gradients of its rows (ZeRO)
  // True: after each step all ranks compare the graphs that their devices ran in the step; a
  // difference is Error parallel.mismatch on all ranks. For devices that compile graphs (RunMode):
  // ranks that run different graphs compile more, and wait for each other. Ragged parts of a batch
  // are different graphs; data::BucketedSource makes them equal. Costs 16 bytes of messages a step.
  bool same_graphs = false;
  // After a stop request, the seconds that other ranks have to finish a step (at least twice the
  // longest step so far). Then the run ends with runtime.stopped; rank 0 keeps the last step.
  double stop_patience = 5;

  // The cut of the model and its batches in a PipelineTrainer (docs/scaling.md).
  PipelineOptions pipeline{};

  // The host's own implementation of gradients of a batch; it stays with the caller. nullptr: the
  // task's forward and backward on a tape.
  StepGradients* gradients = nullptr;
};
// Trainers refuse numbers outside of these ranges with train.options.
void fields(FieldVisitor& visitor, TrainerOptions& options);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/options.ipp>
#endif
