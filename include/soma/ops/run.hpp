#pragma once
// run(): the only place that dispatches operators, forward and backward, with a tape or without.

#include <soma/ops/device.hpp>
#include <soma/ops/operator.hpp>
#include <soma/runtime/float_environment.hpp>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>

namespace SOMA_NAMESPACE {

using Outputs = std::array<Tensor, max_outputs>;

namespace detail {

std::string input_name(std::size_t index);
std::string output_name(std::size_t index);

// The shape rule's outputs; empty if the operator needs no shape rule. Errors of
// Attributes::check(); operator.outputs: the rule leaves an output out.
std::array<TensorSpec, max_outputs> output_specs(const Operator& op, const Attributes& attributes,
                                                 std::span<const Tensor> inputs,
                                                 const Sequences& sequences);

// Error operator.outputs: an output is missing, or differs from the shape rule's, because the host
// kernel has replaced it.
void check_outputs(const Operator& op, std::span<const Tensor> outputs,
                   std::span<const TensorSpec> specs);

}  // namespace detail

// Runs an operator on the context's device, else by its host kernel. Errors operator.incomplete,
// operator.inputs (their number), operator.outputs and the operator's own; nothing is written
// before the shape rule has passed.
Outputs run(Context& context, const Operator& op, const Attributes& attributes,
            std::span<const Tensor> inputs, const Sequences& sequences = {},
            std::span<const Sequences> batches = {});

Outputs run(Context& context, const Operator& op, const Attributes& attributes,
            std::initializer_list<Tensor> inputs, const Sequences& sequences = {});

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/run.ipp>
#endif
