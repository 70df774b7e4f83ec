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

namespace SOMA_NAMESPACE::train {

// One micro-batch of a step.
struct MicrobatchWork {
  data::Batch part{};      // its shards
  std::uint32_t draw = 0;  // the number of its batch in the run: what dropout draws by
  float weight = 1;        // the weight of its loss in backward
  std::size_t index = 0;   // its index in its batch
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
                const TapeOptions& options, GradientReceiver& receiver);
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
                             const TapeOptions& options);
  void finish_sends();
  double waited_seconds() const;
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

  SOMA_INLINE void between() override;

  void reserve_flights(std::size_t count);
  Flight& flight(const Pass& pass, std::size_t number) {
    return *flights_[number % pass.in_flight];
  }
  static const Sequences& sequences_of(const Pass& pass, std::size_t number) {
    return pass.work[number].part.inputs.sequences;
  }

  // The gradients of a micro-batch's input and of parameters, from that of its output. A stage may
  // have nothing to differentiate: no parameters, or pieces that return their input.
  void differentiate(Flight& flight, const Tensor& gradient);
  // The gradient of a parameter that the pieces return as it is.
  void receive(const Var& parameter, const Tensor& gradient);
  void ask_ahead(Pass& pass);
  void ask_forward(Pass& pass);
  void ask_backward(Pass& pass);

  // Runs the pieces of this stage; `x` becomes the result. The last stage returns the loss.
  nn::Task::Forward compute(Tape& tape, Var& x, const data::Batch& batch);

  void forward(Pass& pass, std::size_t number, MicrobatchResults& results);

  void backward(Pass& pass, std::size_t number);

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

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/stage.ipp>
#endif
