#pragma once
// The functions of profiler.hpp.

#include <soma/train/pipeline/profiler.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE PieceProfiler::PieceProfiler(Context& context, nn::Task& task, const nn::Pieces& pieces,
                                         const TrainerOptions& options)
    : context_(context),
      task_(task),
      pieces_(pieces),
      later_(options.pipeline.later),
      precision_(context, options.precision, options.seed) {
  precision_.use_parts({});
}

SOMA_INLINE std::vector<PieceProfile> PieceProfiler::measure(std::span<const ProfileSize> sizes) {
  std::vector<PieceProfile> profiles(piece_count());
  std::vector<Input> inputs(sizes.size());
  receiver_.profiler = this;
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    receiver_.piece = pieces_.empty() ? nullptr : &pieces_[i];
    Parameters made;
    if (later_ != nullptr && !pieces_.empty()) {
      for (const Parameters* used : {&pieces_[i].parameters, &pieces_[i].shared})
        for (const Parameter& parameter : *used)
          if (!parameter.value().defined()) made.push_back(parameter);
      later_->make(context_, made);
    }
    std::vector<Tensor> kept;  // running statistics are among the parameters
    const bool remembers = !pieces_.empty() && pieces_[i].mixes_sequences;
    if (remembers)
      for (const Parameter& parameter : pieces_[i].parameters)
        kept.push_back(clone(context_, parameter.value()));
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      std::size_t index = 0;
      while ((std::size_t{1} << index) < sizes[k].parts) ++index;
      if (profiles[i].sizes.size() <= index) profiles[i].sizes.resize(index + 1);
      profiles[i].sizes[index] = measure(i, sizes[k], inputs[k], profiles[i]);
    }
    for (std::size_t k = 0; k < kept.size(); ++k) copy(kept[k], pieces_[i].parameters[k].value());
    for (const Parameter& parameter : made) parameter.var.drop_value();
  }
  clear_gradients(task_.parameters());
  return profiles;
}

// The result replaces the input. The first repetition makes it, and the tape grows in it.
SOMA_INLINE PieceMemory PieceProfiler::measure(std::size_t i, const ProfileSize& size, Input& x,
                                               PieceProfile& profile) {
  Heap& heap = context_.heap();
  const auto over = [&heap](std::size_t bytes) -> std::uint64_t {
    const std::size_t now = heap.bytes_in_use();
    return now > bytes ? now - bytes : 0;
  };
  PieceMemory memory;
  memory.rows = size.part.inputs.sequences.rows();
  memory.part = size.bytes;
  Input result;
  const std::size_t without_tape = heap.bytes_in_use();
  {
    Tape tape(context_, {.activations = precision_.activations(),
                         .precision = &precision_,
                         .receiver = &receiver_});
    repeat(tape, i, size, x, result, memory);
    const double first_forward = memory.forward_seconds, first_backward = memory.backward_seconds;
    // A piece that takes long is disturbed less, and two passes are all that a plan may cost.
    const bool slow = first_forward + first_backward > slow_seconds;
    const std::size_t count = size.timed && !slow ? repetitions : 1;
    std::array<double, repetitions> forward{}, backward{};
    for (std::size_t k = 0; k < count; ++k) {
      Input unused;
      repeat(tape, i, size, x, unused, memory);
      forward[k] = memory.forward_seconds;
      backward[k] = memory.backward_seconds;
    }
    if (!size.timed) {
      memory.forward_seconds = memory.backward_seconds = 0;
    } else if (slow) {
      memory.forward_seconds = (std::min)(first_forward, forward[0]);
      memory.backward_seconds = (std::min)(first_backward, backward[0]);
    } else {
      memory.forward_seconds = median(forward);
      memory.backward_seconds = median(backward);
    }
    profile.tape = (std::max)(profile.tape, over(without_tape));
  }
  // Beside the result, a header and a handle.
  const std::uint64_t left = over(without_tape);
  const std::uint64_t made = result.values.defined() ? result.values.bytes() + 256 : 0;
  const std::uint64_t tables = left > made ? left - made : 0;
  profile.tape -= (std::min)(profile.tape, left);
  profile.tables += tables;
  if (size.parts == 1) evaluate(i, size, x, memory);
  x = std::move(result);
  return memory;
}

// Runs one piece. The result of the last one is the loss.
SOMA_INLINE Var PieceProfiler::compute(Tape& tape, std::size_t i, const Var& x,
                                       const data::Batch& part, Input& result) {
  if (pieces_.empty()) return task_.forward(tape, part).loss;
  const Var output = pieces_[i].run(tape, x, part);
  if (i + 1 == pieces_.size()) return task_.finish(tape, output, part).loss;
  result = {output.value(), output.sequences()};
  return output;
}

// One forward and one backward. As in a stage, the result leaves before backward.
SOMA_INLINE void PieceProfiler::repeat(Tape& tape, std::size_t i, const ProfileSize& size,
                                       const Input& x, Input& result, PieceMemory& memory) {
  Heap& heap = context_.heap();
  tape.reset();
  const std::size_t without_input = heap.bytes_in_use();
  Var input;
  if (i != 0) {
    // A stage that begins here makes a summary of its own.
    const Sequences& batch = size.part.inputs.sequences;
    const bool summary = x.sequences.defined() && x.sequences.summarizes(batch);
    input = tape.input(x.values,
                       summary ? batch.summary(context_).at(x.sequences.place()) : x.sequences);
  }
  const std::size_t before = receiver_.base = heap.bytes_in_use();
  if (i != 0) memory.beside_input = before - without_input + tensor_bytes;
  const auto over = [before](std::size_t bytes) -> std::uint64_t {
    return bytes > before ? bytes - before : 0;
  };
  heap.reset_peak();
  receiver_.steps.clear();
  receiver_.parameters.clear();
  const std::int64_t start = monotonic_nanoseconds();
  const Var output = compute(tape, i, input, size.part, result);
  const std::int64_t middle = monotonic_nanoseconds();
  memory.forward = over(heap.peak_bytes());
  memory.saved = over(heap.bytes_in_use());
  memory.result = result.values.bytes();
  const Shape shape = output.shape();
  const DType type = output.value().dtype();
  const bool last = i + 1 == piece_count();
  // A piece that returns its input, or a parameter, has nothing to differentiate.
  const bool differentiates = output.requires_gradient() && !output.is_leaf();
  if (!last && differentiates) {
    Input left = std::exchange(result, {});
    output.drop_value();
    if (memory.kept == 0) result = left;  // the first repetition's stays
    left = {};
  }
  memory.kept = over(heap.bytes_in_use());
  heap.reset_peak();
  const std::int64_t again = monotonic_nanoseconds();
  if (differentiates) {
    if (last)
      tape.backward(output);
    else
      tape.backward(output, Tensor::zeros(context_, shape, type));
  }
  const std::int64_t end = monotonic_nanoseconds();
  receiver_.steps.push_back({.working = over(heap.peak_bytes()), .gradient = false});
  memory.backward = receiver_.steps;
  memory.forward_seconds = static_cast<double>(middle - start) * 1e-9;
  memory.backward_seconds = static_cast<double>(end - again) * 1e-9;
}

SOMA_INLINE void PieceProfiler::evaluate(std::size_t i, const ProfileSize& size, const Input& x,
                                         PieceMemory& memory) {
  Heap& heap = context_.heap();
  Tape tape(context_, {.record = false,
                       .training = false,
                       .activations = precision_.activations(),
                       .precision = &precision_});
  Var input;
  if (i != 0) input = tape.constant(x.values, x.sequences);
  const std::size_t before = heap.bytes_in_use();
  heap.reset_peak();
  Input result;
  static_cast<void>(compute(tape, i, input, size.part, result));
  memory.evaluation = heap.peak_bytes() - before + x.values.bytes();
}

SOMA_INLINE void PieceProfiler::Receiver::receive(const Var& parameter, Gradient addend) {
  check(parameter);
  Heap& heap = profiler->context_.heap();
  GradientStep step{.sparse = addend.sparse(), .shape = parameter.shape()};
  step.working = heap.peak_bytes() > base ? heap.peak_bytes() - base : 0;
  const std::uint64_t rows = addend.rows.defined() ? addend.rows.bytes() : 0;
  step.bytes = addend.values.elements() * sizeof(float) + rows;
  step.whole = parameter.shape().elements() * sizeof(float);
  if (addend.sparse() && addend.rows.elements() != 0)
    step.whole += step.whole / (step.bytes - rows) * rows;
  step.stored = step.bytes;
  steps.push_back(step);
  parameters.push_back(parameter);
  addend = {};
  heap.reset_peak();
}

SOMA_INLINE void PieceProfiler::Receiver::complete(const Var& parameter, DType type) {
  for (std::size_t i = parameters.size(); i-- > 0;)
    if (parameters[i].is(parameter)) {
      // The sum with another stage's gradient is rounded, later.
      if (piece != nullptr && has(piece->shared, parameter)) return;
      if (!steps[i].sparse) steps[i].stored = steps[i].bytes / sizeof(float) * size_of(type);
      return;
    }
}

SOMA_INLINE bool PieceProfiler::Receiver::has(const Parameters& list, const Var& parameter) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Parameter& known) { return known.var.is(parameter); });
}

SOMA_INLINE void PieceProfiler::Receiver::check(const Var& parameter) const {
  if (piece == nullptr) return;
  if (has(piece->parameters, parameter) || has(piece->shared, parameter)) return;
  // One of no piece is the host's own, which no stage drops.
  const Parameters& all = profiler->task_.parameters();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Parameter& known) { return known.var.is(parameter); });
  if (found == all.end()) return;
  fail(error_id::train_options, "PipelineTrainer", "piece " + soma::quoted(piece->name),
       "one that uses " + soma::quoted(found->name) + ", which is not among its parameters",
       "a piece that lists the variables that it uses (nn::Piece::parameters)");
}

SOMA_INLINE std::size_t PieceProfiler::piece_count() const {
  return pieces_.empty() ? 1 : pieces_.size();
}

SOMA_INLINE double PieceProfiler::median(std::array<double, repetitions>& times) {
  std::sort(times.begin(), times.end());
  return times[repetitions / 2];
}

}  // namespace SOMA_NAMESPACE::train
