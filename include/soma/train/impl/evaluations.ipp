#pragma once
// Evaluates during a run, keeps the best weights, and reports evaluations to callbacks.

#include <soma/train/trainer_base.hpp>

#include <soma/train/stoppable_source.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::train::detail {

// The value that best_metric names.
SOMA_INLINE Comparison comparison_of(const Evaluation& evaluation, const std::string& name) {
  if (name == "loss") return {evaluation.loss, false};
  const metrics::Value* value = metrics::find(evaluation.values, name);
  return {value->value, value->higher_is_better};
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

// Returns nothing if a stop has cut the evaluation short.
SOMA_INLINE std::optional<Evaluation> TrainerBase::measure(data::BatchSource& validation,
                                                           const StopFlag* stop) {
  if (!stoppable()) return gradients_->evaluate(validation);
  StoppableSource source(validation, stop, *ranks_, StoppableSource::When::between_batches);
  Evaluation evaluation = gradients_->evaluate(source);
  if (source.cut()) return std::nullopt;
  return evaluation;
}

// True if the evaluation at this step was cut short, so that a resumed run must make it.
SOMA_INLINE bool TrainerBase::evaluation_is_due(const data::BatchSource& batches) const {
  if (progress_.step == 0 || progress_.evaluated_at == progress_.step) return false;
  if (options_.evaluate_every != 0) return progress_.step % options_.evaluate_every == 0;
  const data::Position at = batches.position();
  return at.epoch != 0 && at.batch == 0;
}

// Returns false if the evaluation was cut short; then nothing has changed.
SOMA_INLINE bool TrainerBase::evaluate(data::BatchSource& validation, Report& report,
                                       std::uint64_t epoch, const StopFlag* stop) {
  optimizer_->settle();
  const AveragedWeights averaged(context_, average_, trained_);
  std::optional<Evaluation> measured = measure(validation, stop);
  if (!measured) return false;
  Evaluation& evaluation = *measured;
  between_steps_ = false;
  const double score = detail::comparison_of(evaluation, options_.best_metric).score();
  const bool better = !std::isnan(score) && (!progress_.has_best || score > progress_.best);
  const bool equal = progress_.has_best && score == progress_.best;
  if (better)
    progress_.stale = 0;
  else if (!equal)
    ++progress_.stale;
  progress_.evaluated_at = progress_.step;
  if (schedule_.decay == optim::Decay::plateau)
    progress_.plateau.add(score, schedule_.patience, schedule_.threshold);
  if (better) {
    progress_.best = score;
    progress_.has_best = true;
    if (options_.keep_best) best_.keep(context_, *ranks_, trained_, progress_);
  }
  const EvaluationInfo info{.step = progress_.step,
                            .epoch = epoch,
                            .metrics = task_.classes() != 0 ? &evaluation.metrics : nullptr,
                            .values = &evaluation.values,
                            .loss = evaluation.loss,
                            .seconds = evaluation.seconds,
                            .best = better};
  between_steps_ = true;
  tell([&](Callback& callback) { callback.on_evaluation(info); });
  if (better || !options_.keep_best) report.take(std::move(evaluation));
  return true;
}

}  // namespace SOMA_NAMESPACE::train
