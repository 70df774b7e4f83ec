#pragma once
// run(): the one place where operators are dispatched, forward and backward, with a tape or
// without.

#include <soma/ops/device.hpp>
#include <soma/ops/operator.hpp>
#include <soma/runtime/float_environment.hpp>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>

namespace soma {

using Outputs = std::array<Tensor, max_outputs>;

namespace detail {

inline std::string input_name(std::size_t index) { return "input " + std::to_string(index); }
inline std::string output_name(std::size_t index) { return "output " + std::to_string(index); }

}  // namespace detail

// Runs an operator on the context's device, else by its host kernel. Errors operator.incomplete,
// operator.inputs (their number) and the operator's own; nothing is written before its shape rule
// has passed.
inline Outputs run(Context& context, const Operator& op, const Attributes& attributes,
                   std::span<const Tensor> inputs, const Sequences& sequences = {}) {
  detail::check_complete("run", op);
  if (inputs.size() < op.min_inputs || inputs.size() > op.max_inputs)
    fail(error_id::operator_inputs, op.name, "inputs", std::to_string(inputs.size()),
         op.min_inputs == op.max_inputs
             ? std::to_string(op.min_inputs)
             : std::to_string(op.min_inputs) + " to " + std::to_string(op.max_inputs));
  for (std::size_t i = 0; i < op.min_inputs; ++i)
    if (!inputs[i].defined())
      fail(error_id::operator_inputs, op.name, detail::input_name(i), "not defined", "a tensor");

  const FloatEnvironment environment;  // for what operators compute on the calling thread
  std::array<TensorSpec, max_outputs> specs{};
  if (op.shape != nullptr)
    op.shape({attributes, inputs, sequences, std::span(specs).first(op.outputs), op.state});
  Outputs outputs{};
  if (!op.makes_views && !op.allocates_outputs)
    for (std::size_t i = 0; i < op.outputs; ++i)
      outputs[i] = Tensor::empty(context, specs[i].shape, specs[i].dtype);
  const OperatorCall call{context,   attributes, inputs, std::span(outputs).first(op.outputs),
                          sequences, op.state};
  if (context.device() != nullptr && !op.composite)
    context.device()->run(op, call);
  else
    op.host(call);
  for (std::size_t i = 0; i < op.outputs; ++i)
    if (!outputs[i].defined())
      fail(error_id::operator_outputs, op.name, detail::output_name(i), "not made",
           "a tensor from the host kernel, which allocates the outputs");
  if (op.registration != nullptr) op.registration->used.store(true, std::memory_order_relaxed);
  return outputs;
}

inline Outputs run(Context& context, const Operator& op, const Attributes& attributes,
                   std::initializer_list<Tensor> inputs, const Sequences& sequences = {}) {
  return run(context, op, attributes, std::span<const Tensor>(inputs.begin(), inputs.size()),
             sequences);
}

}  // namespace soma
