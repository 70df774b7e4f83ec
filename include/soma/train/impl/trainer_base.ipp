#pragma once
// Makes a trainer: its ranks, gradients and optimizer. Sets a run to its beginning or to the
// checkpoint that it resumes.

#include <soma/train/trainer_base.hpp>

#include <soma/nn/state.hpp>
#include <soma/ops/run.hpp>
#include <soma/train/checks.hpp>
#include <soma/train/identity.hpp>

#include <string>
#include <vector>

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE void give_precision(Context& context, const Parameters& parameters,
                                const Precision& precision) {
  const DType weights = find_dtype(precision.weights.format);
  for (const Parameter& parameter : parameters) {
    const Tensor& value = parameter.var.value();
    if (value.rank() < 2 || value.dtype() == weights) continue;
    if (parameter.role == ParameterRole::adapter) continue;
    if (!value.defined()) {  // it gets that type when it is made
      parameter.var.drop_value(weights);
      continue;
    }
    parameter.var.set_value(
        run(context, *context.built_in().cast, CastSetting{.dtype = weights}, {value})[0]);
  }
}

// The number of steps of the run; 0: not known.
SOMA_INLINE std::uint64_t count_steps(const data::BatchSource& batches,
                                      const TrainerOptions& options) {
  std::uint64_t total = 0;
  for (std::uint64_t epoch = 0; epoch < options.epochs; ++epoch) {
    const std::uint64_t count = batches.batches(epoch);
    if (count == 0) return options.max_steps;
    total += (count + options.accumulate - 1) / options.accumulate;
    if (options.max_steps != 0 && total >= options.max_steps) return options.max_steps;
  }
  return options.epochs == 0 ? options.max_steps : total;
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE TrainerBase::TrainerBase(Context& context, nn::Task& task,
                                     const TrainerOptions& options, MakeParts make_parts)
    : context_(context),
      task_(task),
      options_(options),
      schedule_(schedule_of(task, options)),
      precision_(context, options.precision, options.seed),
      scaler_(options.loss_scaling.value_or(optim::LossScalerOptions{})),
      average_(context, options.average) {
  make_parts(context, task, options_, precision_, ranks_, own_gradients_);
  check_options(task, options, ranks_->first());
  check_early(options, ranks_->count());
  ranks_->check(task, options.optimizer);
  gradients_ = options.gradients == nullptr ? own_gradients_.get() : options.gradients;
  make_optimizer();
  ranks_->join(precision_, *optimizer_);
}

// One process, or the ranks that share each batch.
SOMA_INLINE void TrainerBase::make_plain(Context& context, nn::Task& task,
                                         const TrainerOptions& options, PrecisionState& precision,
                                         Owned<Ranks>& ranks, Owned<StepGradients>& gradients) {
  if (options.pipeline.partitions != 1 || options.pipeline.microbatches != 1)
    fail(error_id::train_options, "Trainer", "pipeline",
         std::to_string(options.pipeline.partitions) + " partitions, " +
             std::to_string(options.pipeline.microbatches) + " micro-batches",
         "a PipelineTrainer (soma/pipeline.hpp), which has them");
  ranks = make_ranks(context, options);
  if (options.gradients == nullptr)
    gradients = Owned<StepGradients>::make<TapeGradients>(context, task, precision, *ranks,
                                                          options.seed, options.step_early);
}

SOMA_INLINE void TrainerBase::make_optimizer() {
  const Parameters& all = gradients_->model_parameters();
  detail::give_precision(context_, all, options_.precision);
  optimizer_ = options_.optimizer;
  if (optimizer_ != nullptr) return;
  const auto decay = static_cast<float>(options_.weight_decay.value_or(0.01));
  const optim::AdamWOptions options{
      .storage = {.state = find_dtype(options_.precision.moments.format),
                  .state_rounding = options_.precision.moments.rounding,
                  .weight_rounding = options_.precision.weights.rounding,
                  .seed = options_.seed}};
  if (options_.decay_all)
    own_optimizer_.emplace(
        context_, std::vector<optim::Group>{{.parameters = all, .weight_decay = decay}}, options);
  else
    own_optimizer_.emplace(context_, optim::decay_groups(all, decay), options);
  optimizer_ = &*own_optimizer_;
}

SOMA_INLINE void TrainerBase::add(Callback& callback) { callbacks_.push_back(&callback); }

SOMA_INLINE const Parameters& TrainerBase::parameters() const { return gradients_->parameters(); }

SOMA_INLINE bool TrainerBase::stoppable() const {
  return options_.gradients == nullptr || ranks_->count() == 1;
}

// An exception of a callback is kept until the trained weights are safe.
template <class Call>
void TrainerBase::tell(const Call& call) {
  for (Callback* callback : callbacks_) {
#if SOMA_HAS_EXCEPTIONS
    try {
      call(*callback);
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
#else
    call(*callback);
#endif
  }
}

// Checks everything that can be wrong before the first step, and sets the run to its beginning or
// to the checkpoint that it resumes.
SOMA_INLINE void TrainerBase::begin(data::BatchSource& batches,
                                    const data::BatchSource* validation) {
  const std::uint64_t steps = detail::count_steps(batches, options_);
  if (steps == 0 && schedule_.depends_on_steps())
    fail(error_id::train_steps_unknown, "Trainer::fit", "batches", "a source of unknown length",
         "max_steps, or a schedule that does not depend on the length");
  if (validation == nullptr && schedule_.decay == optim::Decay::plateau)
    fail(error_id::train_options, "Trainer::fit", "validation", "no source for evaluations",
         "a source: a plateau schedule needs evaluations");
  schedule_.steps = steps;
  schedule_.warmup = options_.schedule.warmup;  // an earlier call may have kept a checkpoint's
  schedule_.check();
  progress_ = {};
  progress_.steps = steps;
  for (Callback* callback : callbacks_) {  // forget the requests of an earlier run
    callback->take_stop();
    callback->take_save();
  }
  struct Description final : Ranks::RunDescription {
    Description(const TrainerBase& own, const data::BatchSource& source,
                const data::BatchSource* evaluated)
        : trainer(own), batches(source), validation(evaluated) {}
    Record make() const override {
      return agreement_of(trainer.identity(batches), trainer.gradients_->model_parameters(),
                          validation, trainer.options_, trainer.progress_.steps,
                          trainer.ranks_->saves_parts());
    }
    const TrainerBase& trainer;
    const data::BatchSource& batches;
    const data::BatchSource* validation;
  };
  frozen_values_.reset();
  ranks_->begin(Description(*this, batches, validation), gradients_->model_parameters());
  gradients_->begin(batches);
  trained_ = nn::trained(parameters());
  if (const auto frozen = frozen_values(context_, parameters()); ranks_->any(frozen.has_value()))
    frozen_values_ = ranks_->hash_of_all(frozen.value_or(0));
  has_store_ = ranks_->from_first(options_.checkpoints != nullptr);
  if (has_store_ && ranks_->saves_parts()) ranks_->check_store(options_.checkpoints);
  if (has_store_ && !options_.resume && ranks_->first())
    if (const std::optional<std::uint64_t> newest = options_.checkpoints->newest())
      fail(error_id::checkpoint_step, "Trainer::fit", "checkpoints",
           "a store whose newest is step " + std::to_string(*newest),
           "an empty one: set resume, or call CheckpointFolder::clear()");
  best_.begin(options_.checkpoints, has_store_);
  average_.clear();
  if (has_store_) validation_ = content_of(validation);
  batches.seek({});
  precision_is_new_ = true;
  precision_.note_products(true);
  if (options_.resume) resume(batches);
  saved_at_ = progress_.step;
  // Some sources need a pass over the data for this: an urgent checkpoint cannot wait for it.
  if (has_store_) batches.hash();
}

}  // namespace SOMA_NAMESPACE::train
