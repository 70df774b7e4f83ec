#pragma once
// The functions of differentiable.hpp.

#include <soma/autograd/differentiable.hpp>

#include <soma/autograd/custom.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/registry.hpp>
#include <soma/ops/run.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void differentiable_shape(const ShapeCall& call) {
  const Operator& op = *static_cast<const DifferentiablePair*>(call.state)->forward;
  op.shape({call.attributes, call.inputs, call.sequences, call.outputs, op.state});
}

SOMA_INLINE void differentiable_host(const OperatorCall& call) {
  const Operator& op = *static_cast<const DifferentiablePair*>(call.state)->forward;
  call.outputs[0] = run(call.context, op, call.attributes, call.inputs, call.sequences)[0];
}

SOMA_INLINE void differentiable_gradient(const GradientCall& call) {
  const auto& pair = *static_cast<const DifferentiablePair*>(call.state);
  const Tensor& given = call.output_gradients[0];
  if (!given.defined()) return;
  HeapVector<Tensor> inputs(call.context.heap());
  inputs.reserve(call.inputs.size() + 1);
  inputs.push_back(given);
  for (const Tensor& input : call.inputs) inputs.push_back(input);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.wanted[i] || i >= pair.backward.size() || pair.backward[i] == nullptr) continue;
    const Tensor gradient =
        run(call.context, *pair.backward[i], call.attributes, inputs, call.sequences)[0];
    if (gradient.shape() != call.inputs[i].shape())
      fail(error_id::tensor_shape, pair.backward[i]->name, "gradient of input " + std::to_string(i),
           gradient.describe(), call.inputs[i].describe());
    const DType wanted = call.inputs[i].dtype();
    call.input_gradients[i].values =
        gradient.dtype() == wanted ? gradient : in_type(call.context, gradient, wanted);
  }
}

}  // namespace SOMA_NAMESPACE::detail
