#pragma once
// The functions of rank_memory.hpp.

#include <soma/train/memory/rank_memory.hpp>

#include <soma/base/error.hpp>
#include <soma/parallel/row_partition.hpp>
#include <soma/runtime/context.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::train::detail {

// One rank's step in bytes.
class StepReplay {
 public:
  StepReplay(const RankProblem& problem, std::size_t replica, std::size_t microbatches,
             bool has_moments);

  MemoryEstimate run();

 private:
  const PieceMemory& size_of(const PieceProfile& piece, std::size_t k) const;
  const PieceMemory& memory(std::size_t i) const { return size_of(problem_.pieces[i], size_); }
  std::uint64_t part_of(std::uint64_t bytes, const Shape& shape) const;
  // Bytes of `count` micro-batches that wait for their backward.
  std::uint64_t held(std::size_t count) const;
  std::uint64_t messages(std::size_t number) const;
  // The sum of 2^level micro-batches.
  std::uint64_t sum_bytes(const GradientStep& step, std::size_t piece, std::size_t at,
                          std::size_t level) const;
  std::uint64_t waiting_bytes(const GradientStep& step, std::size_t piece, std::size_t at,
                              std::size_t index) const;

  void note(std::uint64_t activations, std::uint64_t workspaces, std::uint64_t messages,
            std::uint64_t more_gradients = 0);
  void forward(std::size_t number);
  void backward(std::size_t number);
  void receive(const GradientStep& step, std::size_t piece, std::size_t at, std::size_t number,
               std::uint64_t activations, std::uint64_t workspaces, std::uint64_t messages);
  bool is_shared(const Shape& shape) const;
  void finish_batch();
  void step();
  void evaluate();
  void save();

  const RankProblem& problem_;
  std::size_t replica_, microbatches_, parts_, size_ = 0;
  std::size_t forwards_ = 0, backwards_ = 0;
  std::uint64_t saved_ = 0, kept_ = 0;         // bytes of a micro-batch
  std::uint64_t gradients_ = 0, filling_ = 0;  // now; in the bucket that is being filled
  std::uint64_t filling_stored_ = 0;           // the same as the step keeps it
  std::uint64_t waiting_ = 0;                  // gradients that early steps wait for
  std::uint64_t scratch_ = 0;                  // messages of buckets on their way
  std::uint64_t entries_ = 0;                  // records of sums that wait for micro-batches
  std::vector<std::uint64_t> sparse_{};        // sums that wait for the end of a batch
  std::uint64_t batch_ = 0;                    // sums of this batch, in gradients_
  std::uint64_t final_ = 0;                    // the share that this batch adds to the parameters
  std::uint64_t copies_ = 0;                   // weights that wait while averages are evaluated
  MemoryEstimate now_{}, most_{};
};

SOMA_INLINE StepReplay::StepReplay(const RankProblem& problem, std::size_t replica,
                                   std::size_t microbatches, bool has_moments)
    : problem_(problem),
      replica_(replica),
      microbatches_(microbatches),
      parts_(microbatches * problem.replicas) {
  while ((std::size_t{1} << size_) < parts_) ++size_;
  for (const ParameterMemory& parameter : problem.parameters) {
    now_.weights += parameter.value + tensor_bytes;
    if (!parameter.trained) continue;
    if (has_moments && parameter.moments != 0)
      now_.moments += part_of(parameter.moments, parameter.shape) + 2 * tensor_bytes;
    if (problem.keeps_best) now_.saving += parameter.value + tensor_bytes;
    if (!problem.average) continue;
    now_.average += parameter.shape.elements() * sizeof(float) + tensor_bytes;
    copies_ += parameter.value + tensor_bytes;
  }
  for (const PieceProfile& piece : problem.pieces) {
    now_.tables += piece.tables;
    now_.workspaces += piece.tape * problem.in_flight;
    for (const GradientStep& step : size_of(piece, size_).backward) {
      // The optimizer marks rows that it has stepped.
      if (has_moments && step.sparse) now_.moments += step.shape[0];
      // The list of a bucket's gradients stays when they have left.
      if (problem.sums == GradientSums::ranks && step.gradient) now_.workspaces += bucket_entry;
    }
  }
  now_.data = problem.data + memory(0).part * microbatches_ * problem.accumulate;
  for (std::size_t i = 0; i < problem.pieces.size(); ++i) {
    saved_ += memory(i).saved;
    kept_ += i + 1 < problem.pieces.size() ? memory(i).saved : memory(i).kept;
  }
}

SOMA_INLINE const PieceMemory& StepReplay::size_of(const PieceProfile& piece, std::size_t k) const {
  if (k >= piece.sizes.size() || piece.sizes[k].backward.empty())
    fail(error_id::parallel_argument, "estimate_rank", "parts of a batch",
         std::to_string(std::size_t{1} << k), "a number of parts that was measured");
  return piece.sizes[k];
}

SOMA_INLINE std::uint64_t StepReplay::part_of(std::uint64_t bytes, const Shape& shape) const {
  if (!problem_.shard || problem_.replicas == 1 || bytes == 0) return bytes;
  const RowPartition rows(shape);
  const Part part = rows.part(static_cast<int>(replica_), static_cast<int>(problem_.replicas));
  const std::size_t all = shape.rank() == 0 ? 1 : shape[0];
  return all == 0 ? 0
                  : static_cast<std::uint64_t>(static_cast<double>(bytes) *
                                               static_cast<double>(part.count) /
                                               static_cast<double>(all));
}

SOMA_INLINE std::uint64_t StepReplay::held(std::size_t count) const {
  if (count == 0) return 0;
  // Bytes grow with the rows; two sizes say how.
  const std::size_t rows = memory(0).rows;
  const std::size_t all = problem_.batches->rows_of(count, parts_);
  const double own = static_cast<double>(kept_ + problem_.input);
  double per_row = rows == 0 ? 0 : own / static_cast<double>(rows), constant = 0;
  if (size_ > 0) {
    std::uint64_t twice = problem_.input;
    std::size_t more = 0;
    for (std::size_t i = 0; i < problem_.pieces.size(); ++i) {
      const PieceMemory& larger = problem_.pieces[i].sizes[size_ - 1];
      more = larger.rows;
      twice += i + 1 < problem_.pieces.size() ? larger.saved : larger.kept;
    }
    if (rows != 0 && more > rows) {
      twice += problem_.input * (more - rows) / rows;
      per_row =
          (std::max)(0.0, (static_cast<double>(twice) - own) / static_cast<double>(more - rows));
      constant = (std::max)(0.0, own - per_row * static_cast<double>(rows));
    }
  }
  const double bytes = constant * static_cast<double>(count) + per_row * static_cast<double>(all);
  return static_cast<std::uint64_t>(bytes) + problem_.beside_input * count;
}

// The messages that arrive ahead or have not left when micro-batch `number` computes.
SOMA_INLINE std::uint64_t StepReplay::messages(std::size_t number) const {
  const std::size_t total = microbatches_ * problem_.accumulate;
  std::uint64_t bytes = 0;
  if (!problem_.first) {
    const std::size_t asked = (std::min)(total, backwards_ + problem_.in_flight);
    if (asked > number + 1) bytes += (asked - number - 1) * problem_.input;
    if (backwards_ != 0) bytes += problem_.input;  // the gradient that leaves
  }
  if (!problem_.last) {
    const std::uint64_t result = memory(problem_.pieces.size() - 1).result;
    const std::size_t asked = (std::min)(forwards_, backwards_ + 2);
    if (asked > backwards_) bytes += (asked - backwards_) * result;
    // Results that the next stage has not asked for.
    const std::size_t ahead = backwards_ + problem_.in_flight_behind;
    bytes += (forwards_ > ahead ? forwards_ - ahead : 0) * result;
  }
  return bytes;
}

SOMA_INLINE std::uint64_t StepReplay::sum_bytes(const GradientStep& step, std::size_t piece,
                                                std::size_t at, std::size_t level) const {
  if (!step.sparse || level == 0) return step.bytes + tensor_bytes;
  // Rows of 2^level micro-batches: those of a part that is as much larger.
  const std::vector<PieceMemory>& sizes = problem_.pieces[piece].sizes;
  std::uint64_t bytes = step.bytes << level;
  if (level <= size_ && at < sizes[size_ - level].backward.size())
    bytes = (std::min)(bytes, sizes[size_ - level].backward[at].bytes);
  return (std::min)(bytes, step.whole) + 2 * tensor_bytes;
}

SOMA_INLINE std::uint64_t StepReplay::waiting_bytes(const GradientStep& step, std::size_t piece,
                                                    std::size_t at, std::size_t index) const {
  std::uint64_t bytes = 0;
  for (std::size_t level = 0; index >> level != 0; ++level)
    if ((index >> level & 1) != 0) bytes += sum_bytes(step, piece, at, level);
  return bytes;
}

SOMA_INLINE void StepReplay::note(std::uint64_t activations, std::uint64_t workspaces,
                                  std::uint64_t messages, std::uint64_t more_gradients) {
  MemoryEstimate sum = now_;
  sum.activations += activations;
  sum.workspaces += workspaces;
  sum.messages += messages;
  sum.gradients += gradients_ + scratch_ + entries_ + more_gradients;
  if (sum.heap() > most_.heap()) most_ = sum;
}

SOMA_INLINE void StepReplay::forward(std::size_t number) {
  std::uint64_t before = held(forwards_ - backwards_) + problem_.input + problem_.beside_input;
  for (std::size_t i = 0; i < problem_.pieces.size(); ++i) {
    note(before, memory(i).forward, messages(number));
    before += memory(i).saved;
  }
  ++forwards_;
}

SOMA_INLINE void StepReplay::receive(const GradientStep& step, std::size_t piece, std::size_t at,
                                     std::size_t number, std::uint64_t activations,
                                     std::uint64_t workspaces, std::uint64_t messages) {
  const std::size_t index = number % microbatches_;
  const bool last = index + 1 == microbatches_;
  const std::size_t levels = static_cast<std::size_t>(std::countr_one(index));
  const std::uint64_t before = waiting_bytes(step, piece, at, index);
  const std::uint64_t sum = sum_bytes(step, piece, at, levels);
  const bool new_level = !last && std::has_single_bit(index + 1);
  if (problem_.sums == GradientSums::ranks && new_level) entries_ += waiting_entry;
  // A sum of rows is a tensor of its own.
  note(activations, workspaces, messages, step.sparse && levels != 0 ? sum : 0);
  gradients_ -= (std::min)(gradients_, before);
  if (!last) {
    gradients_ += waiting_bytes(step, piece, at, index + 1);
    return;
  }
  // Several batches are added in fp32, each table's rows beside those of the batches before.
  const bool first = number < microbatches_;
  const std::uint64_t stored =
      step.sparse || problem_.accumulate > 1 ? sum : (std::min)(sum, step.stored);
  if (problem_.sums == GradientSums::early) {
    // That of a parameter of several pieces waits for all. Of an operator with two, a weight's and
    // a bias's, one waits for the other.
    gradients_ = waiting_;
    if (is_shared(step.shape)) waiting_ += stored;
    gradients_ += stored;
    return;
  }
  if (problem_.sums == GradientSums::tape) {
    if (first || step.sparse) gradients_ += stored;
    return;
  }
  gradients_ += sum;
  batch_ += sum;
  const std::uint64_t own = part_of(stored, step.shape);
  if (first || step.sparse) final_ += own;
  if (step.sparse) {
    sparse_.push_back(sum);
    return;
  }
  filling_ += sum;
  filling_stored_ += stored;
  if (filling_ < problem_.bucket_bytes) return;
  note(activations, workspaces, messages, filling_);
  if (problem_.replicas > 1)
    scratch_ += filling_ / 2;
  else if (sparse_.empty()) {  // its sums are complete, and rounded
    gradients_ -= filling_ - filling_stored_;
    batch_ -= filling_ - filling_stored_;
  }
  filling_ = filling_stored_ = 0;
}

SOMA_INLINE bool StepReplay::is_shared(const Shape& shape) const {
  return std::any_of(problem_.parameters.begin(), problem_.parameters.end(),
                     [&](const ParameterMemory& parameter) {
                       return parameter.several && parameter.shape == shape;
                     });
}

SOMA_INLINE void StepReplay::backward(std::size_t number) {
  const std::size_t waiting = forwards_ - backwards_;
  const std::uint64_t others = held(waiting) - (std::min)(held(waiting), held(1));
  std::uint64_t before = others + problem_.input + problem_.beside_input;
  for (std::size_t i = 0; i < problem_.pieces.size(); ++i) before += memory(i).saved;
  const std::uint64_t on_their_way = messages(number);
  for (std::size_t i = problem_.pieces.size(); i-- > 0;) {
    const PieceMemory& piece = memory(i);
    before -= piece.saved;
    for (std::size_t at = 0; at < piece.backward.size(); ++at) {
      const GradientStep& step = piece.backward[at];
      const std::uint64_t activations = before + (std::min)(piece.saved, step.working);
      const std::uint64_t workspaces = step.working - (std::min)(piece.saved, step.working);
      if (step.gradient)
        receive(step, i, at, number, activations, workspaces, on_their_way);
      else
        note(activations, workspaces, on_their_way);
    }
  }
  ++backwards_;
  if (number % microbatches_ + 1 == microbatches_) finish_batch();
}

// Closes the last bucket, and adds the rows of all replicas.
SOMA_INLINE void StepReplay::finish_batch() {
  if (problem_.sums == GradientSums::early) gradients_ = waiting_ = 0;
  if (problem_.sums != GradientSums::ranks) return;
  const std::uint64_t others = held(forwards_ - backwards_);
  const std::uint64_t on_their_way = messages(backwards_);
  if (filling_ != 0) {
    note(others, 0, on_their_way, filling_);
    if (problem_.replicas > 1) scratch_ += filling_ / 2;
    note(others, 0, on_their_way);
    filling_ = 0;
  }
  for (const std::uint64_t bytes : sparse_)
    note(others, 0, on_their_way, problem_.replicas > 1 ? bytes * 5 / 2 : bytes * 2);
  sparse_.clear();
  if (problem_.shared != 0) note(others, 0, on_their_way + problem_.shared + 2 * tensor_bytes);
  gradients_ = gradients_ - batch_ + final_;
  scratch_ = entries_ = batch_ = final_ = 0;
}

SOMA_INLINE void StepReplay::step() { note(0, 0, 0); }

SOMA_INLINE void StepReplay::evaluate() {
  std::uint64_t most = 0;
  const std::size_t rows = problem_.pieces.front().sizes.front().rows;
  const double larger = (std::max)(
      1.0, rows == 0 ? 1.0 : static_cast<double>(problem_.evaluated) / static_cast<double>(rows));
  const auto scaled = [larger](std::uint64_t bytes) {
    return static_cast<std::uint64_t>(larger * static_cast<double>(bytes));
  };
  for (const PieceProfile& piece : problem_.pieces)
    most = (std::max)(most, piece.sizes.front().evaluation);
  if (!problem_.between_steps) gradients_ = 0;
  now_.data += scaled(problem_.batches->bytes);  // the first batch stays beside the others
  // A message arrives for this batch, and the results of two batches may not have left.
  const std::uint64_t result = problem_.last ? 0 : problem_.pieces.back().sizes.front().result;
  now_.saving += copies_;
  note(0, scaled(most + problem_.beside_input),
       scaled((problem_.first ? 0 : problem_.input * parts_) + result));
  now_.saving -= copies_;
}

// The whole model, one tensor at a time.
SOMA_INLINE void StepReplay::save() {
  gradients_ = 0;
  if (problem_.fetched != 0) now_.saving += problem_.fetched + tensor_bytes;
  note(0, 0, 0);
}

SOMA_INLINE MemoryEstimate StepReplay::run() {
  for (const PipelineAction& action : problem_.actions) {
    if (action.op == PipelineOp::forward)
      forward(action.microbatch);
    else
      backward(action.microbatch);
  }
  step();
  if (problem_.evaluates) evaluate();
  save();
  most_.workspaces += most_.heap() / margin;
  return most_;
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void reserve(Context& context, const MemoryEstimate& estimate) {
  context.heap().trim();
  const std::size_t used = context.heap().bytes_in_use();
  if (estimate.heap() > used) context.heap().reserve(estimate.heap() - used);
}

SOMA_INLINE MemoryEstimate estimate_rank(const RankProblem& problem) {
  MemoryEstimate most;
  const std::size_t replicas = problem.shard ? problem.replicas : 1;
  for (std::size_t replica = 0; replica < replicas; ++replica) {
    const MemoryEstimate one =
        detail::StepReplay(problem, replica, problem.microbatches, true).run();
    if (one.heap() > most.heap()) most = one;
  }
  if (!problem.whole_first_step || problem.microbatches == 1) return most;
  // The first step has no moments and one micro-batch.
  RankProblem first = problem;
  first.microbatches = first.in_flight = first.in_flight_behind = 1;
  first.input *= problem.microbatches;
  first.evaluates = false;
  first.actions.clear();
  for (std::size_t i = 0; i < problem.accumulate; ++i)
    for (const PipelineOp op : {PipelineOp::forward, PipelineOp::backward})
      first.actions.push_back({op, i});
  const MemoryEstimate one = detail::StepReplay(first, 0, 1, false).run();
  return one.heap() > most.heap() ? one : most;
}

}  // namespace SOMA_NAMESPACE::train
