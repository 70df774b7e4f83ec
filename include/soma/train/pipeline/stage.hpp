#pragma once
// PipelineStage: runs one stage's list of a schedule: forward and backward of this rank's pieces,
// micro-batch by micro-batch, with the messages of its neighbours.

#include <soma/nn/pieces.hpp>
#include <soma/nn/task.hpp>
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

namespace soma::train {

// One micro-batch of a step.
struct MicrobatchWork {
  data::Batch part{};      // its shards
  std::uint32_t draw = 0;  // the number of its batch in the run: what dropout draws by
  float weight = 1;        // the weight of its loss in backward
  std::size_t index = 0;   // its place in its batch
  std::size_t count = 1;   // as many micro-batches as that batch has
};

// The results of the micro-batches, on the last stage.
struct MicrobatchResults {
  std::vector<TreeSum> losses{};  // the loss of each batch, on this replica
  std::uint64_t classified = 0, correct = 0;
};

// The memory of micro-batches in flight in the last pass.
struct StageMemory {
  std::vector<std::size_t> bytes{};  // bytes of each micro-batch, from its forward to its backward
  std::size_t held = 0, peak = 0;    // bytes of all in flight, now and at most
};

class PipelineStage final : private TapeHook {
 public:
  // Gradients of parameters go to `receiver`, summed over the micro-batches of a batch.
  PipelineStage(Context& context, nn::Task& task, Communicator& pipeline,
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
  // Sets the pieces of the stage, which must stay in place. Without pieces the whole task is one
  // piece.
  void set_pieces(std::span<const nn::Piece> pieces) { pieces_ = pieces; }

  // Runs forward and backward of all `work`: micro-batch i of the schedule is work[i]. `in_flight`:
  // the most micro-batches that the schedule has at once. end_of_batch() is called after the last
  // micro-batch of each batch.
  template <class EndOfBatch>
  MicrobatchResults run(const std::vector<PipelineAction>& actions, std::size_t in_flight,
                        std::span<const MicrobatchWork> work, const EndOfBatch& end_of_batch) {
    MicrobatchResults results;
    reserve_flights(in_flight);
    memory_ = {};
    Pass pass{.work = work, .in_flight = in_flight};
    for (const PipelineAction& action : actions) {
      ask_ahead(pass);
      if (action.op == PipelineOp::forward) {
        forward(pass, action.microbatch, results);
        ++pass.forwards;
      } else {
        backward(pass, action.microbatch);
        ++pass.backwards;
        const MicrobatchWork& done = work[action.microbatch];
        if (done.index + 1 == done.count) end_of_batch();
      }
      links_.poll();
    }
    links_.finish_sends();
    return results;
  }

  // Forward of one batch, for evaluation. Only the last stage returns scores and a loss.
  nn::Task::Forward evaluate(const data::Batch& batch, std::size_t number,
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
    links_.poll();
    return made;
  }
  void finish_sends() { links_.finish_sends(); }
  double waited_seconds() const { return links_.waited_seconds(); }
  const StageMemory& memory() const { return memory_; }

 private:
  // A micro-batch between its forward and its backward.
  struct Flight {
    Flight(Context& context, const TapeOptions& options) : tape(context, options) {}
    Tape tape;
    Var input{}, output{};
  };
  struct Pass {
    std::span<const MicrobatchWork> work;
    std::size_t in_flight;
    std::size_t forwards = 0, backwards = 0;              // done
    std::size_t asked_forwards = 0, asked_backwards = 0;  // from neighbours
  };

  void between() override { links_.poll(); }

  void reserve_flights(std::size_t count) {
    while (flights_.size() < count)
      flights_.push_back(Owned<Flight>::make<Flight>(context_, options_));
  }
  Flight& flight(const Pass& pass, std::size_t number) {
    return *flights_[number % pass.in_flight];
  }
  static const Sequences& sequences_of(const Pass& pass, std::size_t number) {
    return pass.work[number].part.inputs.sequences;
  }

  // The inputs that have arrived or are being received are at most as many as micro-batches in
  // flight; two gradients are received ahead.
  void ask_ahead(Pass& pass) {
    const std::size_t total = pass.work.size();
    if (!first_ && links_.knows_forward())
      while (pass.asked_forwards < total && pass.asked_forwards < pass.backwards + pass.in_flight)
        ask_forward(pass);
    if (!last_ && links_.knows_backward())
      while (pass.asked_backwards < pass.forwards && pass.asked_backwards < pass.backwards + 2)
        ask_backward(pass);
  }
  void ask_forward(Pass& pass) {
    links_.ask_forward(pass.asked_forwards, sequences_of(pass, pass.asked_forwards));
    ++pass.asked_forwards;
  }
  void ask_backward(Pass& pass) {
    links_.ask_backward(pass.asked_backwards, sequences_of(pass, pass.asked_backwards));
    ++pass.asked_backwards;
  }

  // Runs the pieces of this stage; `x` becomes the result. The last stage returns the loss.
  nn::Task::Forward compute(Tape& tape, Var& x, const data::Batch& batch) {
    if (pieces_.empty()) return task_.forward(tape, batch);
    for (const nn::Piece& piece : pieces_) x = piece.run(tape, x, batch);
    if (last_) return task_.finish(tape, x, batch);
    return {};
  }

  void forward(Pass& pass, std::size_t number, MicrobatchResults& results) {
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

  void backward(Pass& pass, std::size_t number) {
    const MicrobatchWork& work = pass.work[number];
    Flight& flight = this->flight(pass, number);
    sums_.begin(work.index, work.count);
    if (last_) {
      flight.tape.backward(flight.output, work.weight);
    } else {
      if (pass.asked_backwards == number) ask_backward(pass);
      const Tensor gradient = links_.take_backward();
      // A stage without parameters has nothing to differentiate.
      if (flight.output.requires_gradient()) flight.tape.backward(flight.output, gradient);
    }
    sums_.end();
    flight.output = Var();
    memory_.held -= memory_.bytes[number];
    if (first_) return;
    const Var input = std::exchange(flight.input, Var());
    const Gradient& gradient = input.gradient();
    links_.send_backward(
        number, gradient.defined() ? context_.built_in().to_dense(context_, gradient, input.shape())
                                   : Tensor::zeros(context_, input.shape(), input.value().dtype()));
    input.clear_gradient();
  }

  Context& context_;
  nn::Task& task_;
  bool first_, last_;
  TapeOptions options_;
  StageLinks links_;
  MicrobatchSums sums_;
  std::span<const nn::Piece> pieces_{};
  std::vector<Owned<Flight>> flights_{};
  StageMemory memory_{};
};

}  // namespace soma::train
