#pragma once
// The functions of custom.hpp.

#include <soma/autograd/custom.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/ops/elementwise.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/registry.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE Var apply(Tape& tape, std::string_view name, std::initializer_list<Var> inputs,
                      const Attributes& attributes) {
  return tape.apply(tape.context().operators().at(name), attributes, inputs);
}

SOMA_INLINE VarOutputs apply_all(Tape& tape, std::string_view name,
                                 std::initializer_list<Var> inputs, const Attributes& attributes) {
  return tape.apply_all(tape.context().operators().at(name), attributes,
                        std::span<const Var>(inputs.begin(), inputs.size()));
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE HeapVector<Var> composed_inputs(Tape& tape, std::span<const Tensor> tensors,
                                            std::span<const Sequences> batches,
                                            std::span<const bool> wanted,
                                            std::span<const std::optional<DType>> sums) {
  Context& context = tape.context();
  HeapVector<Var> inputs(context.heap());
  inputs.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    Var input;
    if (tensor.defined())
      input = wanted.empty() || !wanted[i] ? Var::constant(context, tensor)
              : i < sums.size() && sums[i] ? Var::parameter(context, tensor)
                                           : tape.input(tensor);
    if (tensor.defined() && !batches.empty()) input = tape.with_sequences(input, batches[i]);
    inputs.push_back(input);
  }
  return inputs;
}

}  // namespace SOMA_NAMESPACE::detail
