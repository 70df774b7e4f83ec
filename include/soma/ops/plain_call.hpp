#pragma once
// Calls with plain tensors, which a custom operator gets unless it asks for the caller's tensors.
// Floating tensors are fp32, and all tensors are row-major without gaps; results are rounded once
// to the wanted type.

#include <soma/ops/operator.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <utility>

namespace SOMA_NAMESPACE::detail {

bool widened(const Tensor& tensor);
// An outline has no elements to arrange.
bool is_plain(const Tensor& tensor);
bool all_plain(std::span<const Tensor> tensors);

// A floating tensor in another floating type, row-major.
Tensor in_type(Context& context, const Tensor& tensor, DType dtype);

Tensor plain(Context& context, const Tensor& tensor);

class PlainTensors {
 public:
  PlainTensors(Context& context, std::span<const Tensor> tensors);
  operator std::span<const Tensor>() const { return tensors_; }
  const Tensor& operator[](std::size_t i) const { return tensors_[i]; }

 private:
  HeapVector<Tensor> tensors_;
};

// Calls function(call) with the plain tensors of a call. `writes_inputs` as in the record.
template <class Function>
void with_plain_tensors(const OperatorCall& call, std::uint32_t writes_inputs,
                        Function&& function) {
  if (all_plain(call.inputs) && all_plain(call.outputs)) return function(call);
  Context& context = call.context;
  const PlainTensors inputs(context, call.inputs);
  std::array<Tensor, max_outputs> outputs;
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    outputs[i] = is_plain(call.outputs[i])
                     ? call.outputs[i]
                     : Tensor::empty(context, call.outputs[i].shape(), DType::fp32);
  function(OperatorCall{context, call.attributes, inputs,
                        std::span(outputs).first(call.outputs.size()), call.sequences, call.state,
                        call.batches});
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const bool rounded = !is_plain(call.outputs[i]) && outputs[i].defined() &&
                         outputs[i].dtype() == DType::fp32 &&
                         outputs[i].shape() == call.outputs[i].shape();
    if (rounded)
      copy(in_type(context, outputs[i], call.outputs[i].dtype()), call.outputs[i]);
    else  // made by the function, the same as before, or what run() will refuse
      call.outputs[i] = std::move(outputs[i]);
  }
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if ((writes_inputs >> i & 1) != 0 && !is_plain(call.inputs[i]))
      copy(
          widened(call.inputs[i]) ? in_type(context, inputs[i], call.inputs[i].dtype()) : inputs[i],
          call.inputs[i]);
}

// The same for a gradient: it reads plain tensors, and its results stay in fp32. A tape rounds them
// where they are read.
template <class Function>
void with_plain_tensors(const GradientCall& call, Function&& function) {
  Context& context = call.context;
  if (all_plain(call.inputs) && all_plain(call.outputs) && all_plain(call.output_gradients))
    return function(call);
  const PlainTensors inputs(context, call.inputs), outputs(context, call.outputs),
      output_gradients(context, call.output_gradients);
  function(GradientCall{context, call.attributes, inputs, outputs, output_gradients, call.sequences,
                        call.wanted, call.input_gradients, call.state, call.output_sequences,
                        call.batches, call.sums});
}

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/plain_call.ipp>
#endif
