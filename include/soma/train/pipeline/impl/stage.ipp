#pragma once
// The functions of stage.hpp.

#include <soma/train/pipeline/stage.hpp>

#include <soma/nn/pieces.hpp>
#include <soma/nn/task.hpp>
#include <soma/ops/records.hpp>
#include <soma/parallel/microbatch_sums.hpp>
#include <soma/parallel/schedule.hpp>
#include <soma/train/evaluate.hpp>
#include <soma/train/pipeline/links.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE PipelineStage::PipelineStage(Context& context, nn::Task& task, Communicator& pipeline,
                                         const TapeOptions& options, GradientReceiver& receiver)
    : context_(context),
      task_(task),
      first_(pipeline.rank() == 0),
      last_(pipeline.rank() + 1 == pipeline.size()),
      options_(options),
      links_(context, pipeline),
      sums_(context, receiver) {
  options_.receiver = &sums_;
  options_.hook = this;
}

SOMA_INLINE nn::Task::Forward PipelineStage::evaluate(const data::Batch& batch, std::size_t number,
                                                      const TapeOptions& options) {
  Tape tape(context_, options);
  Var x;
  if (!first_) {
    links_.ask_forward(number, batch.inputs.sequences);
    const Tensor values = links_.take_forward();
    x = tape.constant(values, links_.before().sequences(context_, batch.inputs.sequences));
  }
  const nn::Task::Forward made = compute(tape, x, batch);
  if (!last_) links_.send_forward(number, x, batch.inputs.sequences);
  links_.finish_sends(1);  // a stage that is faster than the next one runs one batch ahead
  return made;
}

SOMA_INLINE void PipelineStage::finish_sends() { links_.finish_sends(); }

SOMA_INLINE double PipelineStage::waited_seconds() const { return links_.waited_seconds(); }

SOMA_INLINE void PipelineStage::between() { links_.poll(); }

SOMA_INLINE void PipelineStage::reserve_flights(std::size_t count) {
  while (flights_.size() < count)
    flights_.push_back(Owned<Flight>::make<Flight>(context_, options_));
}

// The inputs that have arrived or are being received are at most as many as micro-batches in
// flight; two gradients are received ahead.
SOMA_INLINE void PipelineStage::ask_ahead(Pass& pass) {
  const std::size_t total = pass.work.size();
  if (!first_ && links_.knows_forward())
    while (pass.asked_forwards < total && pass.asked_forwards < pass.backwards + pass.in_flight)
      ask_forward(pass);
  if (!last_ && links_.knows_backward())
    while (pass.asked_backwards < pass.forwards && pass.asked_backwards < pass.backwards + 2)
      ask_backward(pass);
}

SOMA_INLINE void PipelineStage::ask_forward(Pass& pass) {
  links_.ask_forward(pass.asked_forwards, sequences_of(pass, pass.asked_forwards));
  ++pass.asked_forwards;
}

SOMA_INLINE void PipelineStage::ask_backward(Pass& pass) {
  links_.ask_backward(pass.asked_backwards, sequences_of(pass, pass.asked_backwards));
  ++pass.asked_backwards;
}

SOMA_INLINE nn::Task::Forward PipelineStage::compute(Tape& tape, Var& x, const data::Batch& batch) {
  if (pieces_.empty()) return task_.forward(tape, batch);
  for (const nn::Piece& piece : pieces_) x = piece.run(tape, x, batch);
  if (last_) return task_.finish(tape, x, batch);
  return {};
}

SOMA_INLINE void PipelineStage::forward(Pass& pass, std::size_t number,
                                        MicrobatchResults& results) {
  const MicrobatchWork& work = pass.work[number];
  Flight& flight = this->flight(pass, number);
  flight.tape.reset(work.draw);
  Var x;
  std::size_t bytes = 0;
  if (!first_) {
    if (pass.asked_forwards == number) ask_forward(pass);
    Tensor values = links_.take_forward();
    bytes = values.bytes();
    x = flight.input = flight.tape.input(
        std::move(values), links_.before().sequences(context_, work.part.inputs.sequences));
  }
  // Results of other micro-batches may arrive and be freed between operators.
  const auto in_use = [this] { return context_.heap().bytes_in_use() + links_.released_bytes(); };
  const std::size_t before = in_use();
  const nn::Task::Forward made = compute(flight.tape, x, work.part);
  if (last_) x = Var();  // the loss is what is left of it
  bytes += in_use() - before;
  memory_.bytes.push_back(bytes);
  memory_.held += bytes;
  memory_.peak = (std::max)(memory_.peak, memory_.held);
  if (!last_) {
    links_.send_forward(number, x, work.part.inputs.sequences);
    flight.output = std::move(x);
    flight.output.drop_value();  // backward asks for its shape only
    return;
  }
  flight.output = made.loss;
  if (work.index == 0) results.losses.emplace_back();
  results.losses.back().add(work.index, made.loss.value().data<float>()[0]);
  if (task_.classes() == 0 || !made.scores.defined()) return;
  metrics::Classification hits(task_.classes());
  const Tensor scores = detail::scores_of(context_, made, work.part, task_.classes());
  hits.add(scores.span<float>(), work.part.labels);
  results.classified += hits.cases();
  results.correct += hits.correct();
}

SOMA_INLINE void PipelineStage::differentiate(Flight& flight, const Tensor& gradient) {
  const Var& output = flight.output;
  if (!output.requires_gradient()) return;
  if (!output.is_leaf()) return flight.tape.backward(output, gradient);
  // The pieces computed nothing: they return their input, or a parameter.
  if (flight.input.defined() && output.is(flight.input))
    output.set_gradient({gradient, {}});
  else
    receive(output, gradient);
}

SOMA_INLINE void PipelineStage::receive(const Var& parameter, const Tensor& gradient) {
  const bool narrow = gradient.dtype() != DType::fp32;
  const Operator& cast = *context_.built_in().cast;
  const CastSetting wide{.dtype = DType::fp32};
  sums_.receive(parameter,
                {narrow ? soma::run(context_, cast, wide, {gradient})[0] : gradient, {}});
  if (options_.precision == nullptr) return;
  const DType type = options_.precision->gradient_type(parameter.shape());
  if (type != DType::fp32) sums_.complete(parameter, type);
}

SOMA_INLINE void PipelineStage::backward(Pass& pass, std::size_t number) {
  const MicrobatchWork& work = pass.work[number];
  Flight& flight = this->flight(pass, number);
  sums_.begin(work.index, work.count);
  if (last_) {
    flight.tape.backward(flight.output, work.weight);
  } else {
    if (pass.asked_backwards == number) ask_backward(pass);
    const Tensor gradient = links_.take_backward();
    differentiate(flight, gradient);
  }
  sums_.end();
  flight.output = Var();
  memory_.held -= memory_.bytes[number];
  if (first_) return;
  const Var input = std::exchange(flight.input, Var());
  const Gradient& gradient = input.gradient();
  links_.send_backward(number, gradient.defined()
                                   ? context_.built_in().to_dense(context_, gradient, input.shape())
                                   : Tensor::zeros(context_, input.shape(), input.value().dtype()));
  input.clear_gradient();
}

}  // namespace SOMA_NAMESPACE::train
