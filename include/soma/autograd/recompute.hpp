#pragma once
// recompute(): keeps only the inputs and the result of a part of the computation, and runs the part
// a second time when backward reaches it ("Training Deep Nets with Sublinear Memory Cost", arXiv
// 1604.06174). The operator that made the result does not run again: if a layer ends with a
// product, everything except that product does.
//
// Gradients are the same, bit by bit, as without it: random draws depend on their position, not on
// time, and gradients are added in the same order.

#include <soma/autograd/tape.hpp>

#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// Never runs: the node's function replaces it.
inline constexpr Operator recompute_operator{.name = "recompute",
                                             .min_inputs = 0,
                                             .max_inputs = most_inputs,
                                             .keeps_inputs = ~std::uint32_t{0},
                                             .gradient = [](const GradientCall&) {},
                                             .wide_gradients = true};

}  // namespace detail

// Calls function(tape, inputs) -> Var, now and again in backward. The function may use parameters
// freely, but nobody may write them before backward (a write is not detected). Every other variable
// with a gradient must come through `inputs` (at most 32), else backward ends in
// autograd.foreign_tape. Errors operator.inputs, and the function's.
template <class Function>
Var recompute(Tape& tape, std::span<const Var> inputs, Function function) {
  struct Again final : Tape::Recompute {
    Again(Heap& heap, Function f) : Tape::Recompute(heap, &call), function(std::move(f)) {}
    static Var call(Tape::Recompute& self, Tape& inner, std::span<const Var> leaves) {
      return static_cast<Again&>(self).function(inner, leaves);
    }
    Function function;
  };
  if (inputs.size() > detail::recompute_operator.max_inputs)
    fail(error_id::operator_inputs, "recompute", "inputs", std::to_string(inputs.size()),
         "at most " + std::to_string(detail::recompute_operator.max_inputs));
  Heap& heap = tape.context().heap();
  const auto again = Shared<Again>::make(heap, std::move(function));
  const bool record = tape.recording();
  if (record) {  // before the function gives its inputs other sequences
    again->sequences.reserve(inputs.size());
    again->of_batch.reserve(inputs.size());
    for (const Var& input : inputs) {
      again->sequences.push_back(input.defined() ? input.sequences() : Sequences());
      again->of_batch.push_back(Tape::is_of_batch(input));
    }
  }
  const std::uint64_t before = tape.differentiable_, applied = tape.applied_;
  Var value;
  Tape::Replay latest;
  {
    const detail::Paused pause(tape.paused_);
    const detail::LatestOutputs collect(tape.latest_, latest);
    value = again->function(tape, inputs);
  }
  // Nothing to differentiate, or a variable from outside, which has a history of its own.
  if (!record || value.requires_gradient() || tape.differentiable_ == before) return value;
  for (const Var& input : inputs)
    if (input.defined()) tape.check_origin("recompute", input);
  if (latest.serves(value.value())) {
    latest.number -= applied;
    again->replay = std::move(latest);
  }
  const bool of_batch = Tape::is_of_batch(value);
  const Var result = tape.make_result(value.value(), value.sequences(), of_batch, true, 0);
  tape.append(detail::recompute_operator, {}, {}, inputs, {value.value()}, again, of_batch);
  return result;
}

}  // namespace SOMA_NAMESPACE
