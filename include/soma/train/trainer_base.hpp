#pragma once
// TrainerBase: the loop around a task: batches, gradients, clipping, steps, schedule, evaluation,
// checkpoints. It knows data, checkpoints and progress as interfaces; nothing is printed and no
// signal handled here. The same bits come out for any number of threads and of ranks, and for a run
// that was interrupted and resumed.

#include <soma/data/batch.hpp>
#include <soma/data/batch_options.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/nn/state.hpp>
#include <soma/nn/task.hpp>
#include <soma/optim/adamw.hpp>
#include <soma/optim/loss_scaler.hpp>
#include <soma/optim/schedule.hpp>
#include <soma/state/checkpoint.hpp>
#include <soma/train/evaluate.hpp>
#include <soma/train/events.hpp>
#include <soma/train/ranks.hpp>
#include <soma/train/stop_flag.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace soma::train {

// What happens at a step whose loss or gradient norm is not finite.
enum class NonFinite : std::uint8_t {
  stop,  // error train.not_finite; weights are those before the step
  skip,  // the step changes nothing and is counted; the 25th in a row is an error all the same
};

struct TrainerOptions {
  std::uint64_t epochs = 1;
  std::uint64_t max_steps = 0;  // 0: as many as the epochs have
  std::size_t batch_size = 32;  // of sources that are made here
  std::size_t accumulate = 1;   // batches whose gradients make one step
  double learning_rate = 5e-5;
  optim::Decay schedule = optim::Decay::linear;
  std::uint64_t warmup_steps = 0;
  double weight_decay = 0.01;
  bool decay_all = false;  // biases and norms as well
  double clip = 1;         // largest norm of all gradients; 0: any
  std::uint64_t seed = 0;  // of dropout, order of the data, stochastic rounding
  Precision precision{};
  NonFinite non_finite = NonFinite::stop;
  std::uint64_t evaluate_every = 0;  // steps; 0: after each epoch
  std::uint64_t patience = 0;        // evaluations without a gain after which a run ends; 0: never
  bool keep_best = false;            // ends with the weights that evaluated best
  CheckpointStore* checkpoints = nullptr;
  std::uint64_t checkpoint_every = 0;  // steps; 0: at the end and when stopped
  bool resume = false;  // from the newest checkpoint; from the beginning where there is none
  double price_per_hour = 0;

  // The ranks of a run that several train together (docs/scaling.md), a power of two up to the
  // shards of a batch. Each has a trainer with the same options and a source of the same batches,
  // of which it computes its shards. Only rank 0 needs a store of checkpoints; with shard_optimizer
  // all have one to the same place, such as CheckpointPartFolder. nullptr: alone.
  Communicator* communicator = nullptr;
  std::size_t reduce_bucket_bytes = std::size_t{4} << 20;  // of gradients that travel together
  bool overlap = true;           // gradients travel while backward goes on
  bool shard_optimizer = false;  // each rank keeps moments and gradients of its rows (ZeRO)
};

class TrainerBase {
 public:
  // Gives the parameters the precision's types, when all else has gone well. Errors train.options,
  // train.precision, parallel.ranks.
  TrainerBase(Context& context, nn::Task& task, const TrainerOptions& options)
      : context_(context),
        task_(task),
        options_(options),
        precision_(context, options.precision, options.seed),
        ranks_(context, options.communicator,
               {.bucket_bytes = options.reduce_bucket_bytes,
                .overlap = options.overlap,
                .keep_own_rows = options.shard_optimizer,
                .format = options.precision.reduction,
                .seed = options.seed}),
        optimizer_(make_optimizer()) {
    join_ranks();
  }

  // Follows the run; stays with the caller.
  void add(Callback& callback) { callbacks_.push_back(&callback); }

  // Trains; evaluates on `held_out` where there is one. Ends early when `stop` is requested: after
  // the step that runs, with a checkpoint. Errors train.steps_unknown (a falling schedule over a
  // source that does not know its length), train.not_finite, train.options, checkpoint.identity,
  // checkpoint.operator, and those of the task, the source and the store. With
  // ranks, what ends one ends all: the others get parallel.rank_lost. parallel.mismatch: they were
  // not given the same. checkpoint.parts: their stores do not lead to one place.
  Report fit(data::BatchSource& batches, data::BatchSource* held_out = nullptr,
             const StopFlag* stop = nullptr);

  const TrainerOptions& options() const { return options_; }
  // Formats at work: statistics of conversions, and what evaluation needs besides weights.
  PrecisionState& precision() { return precision_; }

 private:
  struct Gathered {
    double loss = 0, losses = 0;  // their sum, and how many the task counts
    std::uint64_t sequences = 0, tokens = 0, classified = 0, correct = 0, batches = 0;
    double wait = 0, flops = 0;
    ReductionTimes reduction{};
  };
  // Of a batch of which this rank computed a part.
  struct PartLoss {
    float sum = 0;
    double count = 0;  // of the whole batch: what the sum over all ranks is divided by
  };
  // All that a checkpoint remembers beside weights and moments.
  struct Progress {
    std::uint64_t step = 0, batches = 0, skipped = 0, skipped_in_a_row = 0, stale = 0;
    std::uint64_t evaluated_at = 0;
    double best = 0, last_loss = 0;
    bool has_best = false;
  };

  void check_options() const;
  optim::AdamW make_optimizer();
  void give_precision();
  std::uint64_t count_steps(const data::BatchSource& batches) const;
  Record identity(const data::BatchSource& batches) const;
  void save(const data::BatchSource& batches);
  void resume(data::BatchSource& batches);
  void load(const Checkpoint& checkpoint, data::BatchSource& batches);
  Report train(data::BatchSource& batches, data::BatchSource* held_out, const StopFlag* stop);
  optim::Schedule begin(data::BatchSource& batches, const data::BatchSource* held_out);
  RunInfo run_info(std::uint64_t steps) const;
  void finish(const data::BatchSource& batches, Report& report) const;
  void join_ranks();
  void begin_ranks(const data::BatchSource& batches, const data::BatchSource* held_out,
                   std::uint64_t steps);
  double gradient_norm();
  bool shares_moments() const;
  void save_optimizer(Checkpoint& checkpoint);
  void save_parts(const StateDict& own);
  Evaluation evaluate_all(data::BatchSource& held_out);
  void add_losses(std::span<PartLoss> losses, Gathered& sums);
  bool gather(data::BatchSource& batches, Tape& tape, Gathered& sums);
  void finish_step(const Gathered& sums, StepInfo& info, const optim::Schedule& schedule);
  void evaluate_now(data::BatchSource& held_out, Report& report, std::uint64_t epoch);
  void keep_best();
  void load_best();

  Context& context_;
  nn::Task& task_;
  TrainerOptions options_;
  std::vector<Callback*> callbacks_;
  PrecisionState precision_;
  Ranks ranks_;
  optim::AdamW optimizer_;
  bool has_store_ = false;  // rank 0 has one
  optim::LossScaler scaler_{};
  Progress progress_{};
  StateDict best_{};
};

}  // namespace soma::train
