#pragma once
// The functions of run.hpp.

#include <soma/ops/run.hpp>

#include <soma/ops/device.hpp>
#include <soma/ops/operator.hpp>
#include <soma/runtime/float_environment.hpp>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::string input_name(std::size_t index) { return "input " + std::to_string(index); }

SOMA_INLINE std::string output_name(std::size_t index) { return "output " + std::to_string(index); }

SOMA_INLINE std::array<TensorSpec, max_outputs> output_specs(const Operator& op,
                                                             const Attributes& attributes,
                                                             std::span<const Tensor> inputs,
                                                             const Sequences& sequences) {
  attributes.check(op.name);
  constexpr auto left_out = static_cast<DType>(dtypes.size());
  std::array<TensorSpec, max_outputs> specs;
  for (TensorSpec& spec : specs) spec.dtype = left_out;
  if (op.shape != nullptr)
    op.shape({attributes, inputs, sequences, std::span(specs).first(op.outputs), op.state});
  for (std::size_t i = 0; i < op.outputs && !op.makes_outputs(); ++i)
    if (specs[i].dtype == left_out)
      fail(error_id::operator_outputs, op.name, output_name(i), "left out by the shape rule",
           "its sizes and its type");
  return specs;
}

SOMA_INLINE void check_outputs(const Operator& op, std::span<const Tensor> outputs,
                               std::span<const TensorSpec> specs) {
  for (std::size_t i = 0; i < op.outputs; ++i) {
    if (!outputs[i].defined())
      fail(error_id::operator_outputs, op.name, output_name(i), "not made",
           "a tensor from the host kernel");
    const TensorSpec& spec = specs[i];
    if (!op.makes_outputs() &&
        (outputs[i].dtype() != spec.dtype || outputs[i].shape() != spec.shape))
      fail(error_id::operator_outputs, op.name, output_name(i), outputs[i].describe(),
           to_string(spec.shape).append(" ").append(to_string(spec.dtype)) +
               ", as the shape rule says");
  }
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Outputs run(Context& context, const Operator& op, const Attributes& attributes,
                        std::span<const Tensor> inputs, const Sequences& sequences,
                        std::span<const Sequences> batches) {
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
  const std::array<TensorSpec, max_outputs> specs =
      detail::output_specs(op, attributes, inputs, sequences);
  Outputs outputs{};
  if (!op.makes_outputs())
    for (std::size_t i = 0; i < op.outputs; ++i)
      outputs[i] = Tensor::empty(context, specs[i].shape, specs[i].dtype);
  const OperatorCall call{context,   attributes, inputs, std::span(outputs).first(op.outputs),
                          sequences, op.state,   batches};
  if (context.device() != nullptr && !op.composite)
    context.device()->run(op, call);
  else
    op.host(call);
  detail::check_outputs(op, outputs, specs);
  if (op.registration != nullptr) op.registration->used.store(true, std::memory_order_relaxed);
  return outputs;
}

SOMA_INLINE Outputs run(Context& context, const Operator& op, const Attributes& attributes,
                        std::initializer_list<Tensor> inputs, const Sequences& sequences) {
  return run(context, op, attributes, std::span<const Tensor>(inputs.begin(), inputs.size()),
             sequences);
}

}  // namespace SOMA_NAMESPACE
