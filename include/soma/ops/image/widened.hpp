#pragma once
// Operators on images compute in fp32. Tensors of other floating types are widened on input, which
// is exact, and results are rounded once on output.

#include <soma/ops/operator.hpp>
#include <soma/ops/support.hpp>
#include <soma/ops/views/cast.hpp>

#include <array>
#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE::detail {

// Calls compute(call) with floating tensors in fp32; cast(call) of ops::cast converts both ways.
template <class Compute, class Cast>
void compute_in_fp32(const OperatorCall& call, const Compute& compute, const Cast& cast) {
  const auto convert = [&](const Tensor& from, Tensor to) {
    if (from.elements() == 0) return;
    const Attributes attributes = CastSetting{to.dtype(), {}, {}};
    cast(OperatorCall{call.context, attributes, std::span(&from, 1), std::span(&to, 1),
                      call.sequences, call.state});
  };
  const auto plain = [](const Tensor& tensor) {
    return !tensor.defined() || !is_floating(tensor.dtype()) || tensor.dtype() == DType::fp32;
  };
  std::array<Tensor, 4> inputs;
  std::array<Tensor, max_outputs> outputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    inputs[i] = call.inputs[i];
    if (plain(inputs[i])) continue;
    inputs[i] = Tensor::empty(call.context, call.inputs[i].shape());
    convert(call.inputs[i], inputs[i]);
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    outputs[i] = plain(call.outputs[i]) ? call.outputs[i]
                                        : Tensor::empty(call.context, call.outputs[i].shape());
  compute(OperatorCall{call.context, call.attributes,
                       std::span<const Tensor>(inputs).first(call.inputs.size()),
                       std::span(outputs).first(call.outputs.size()), call.sequences, call.state});
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    if (!plain(call.outputs[i])) convert(outputs[i], call.outputs[i]);
}

// The host function of an operator whose fp32 function is `compute`.
template <void (*compute)(const OperatorCall&)>
void image_host(const OperatorCall& call) {
  compute_in_fp32(call, compute, cast_host);
}

}  // namespace SOMA_NAMESPACE::detail
