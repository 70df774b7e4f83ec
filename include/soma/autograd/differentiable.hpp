#pragma once
// register_differentiable: combines an operator and the operators that compute its gradients into
// one differentiable operator. For kernels of shared libraries, which come without gradients.

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

namespace SOMA_NAMESPACE {

namespace detail {

// The state of such an operator. The operators were registered earlier, so they live as long as it.
struct DifferentiablePair {
  const Operator* forward;
  std::vector<const Operator*> backward;  // for each input; nullptr: no gradient
};

void differentiable_shape(const ShapeCall& call);
void differentiable_host(const OperatorCall& call);
void differentiable_gradient(const GradientCall& call);

}  // namespace detail

// Registers an operator `name` that computes `forward`. Its gradients come from the operators
// `backward`: the i-th computes d(loss)/d(input i) from d(loss)/d(output) and the inputs of
// `forward`, with the attributes of the call. "" as the i-th name: input i gets no gradient; inputs
// behind the last name get none either. On a device both run as the operators that they are. Errors
// operator.unknown, operator.incomplete (`forward` has several outputs, or sizes that its shape
// rule does not give), operator.inputs (`backward` takes another number of inputs), and those of
// OperatorRegistry::add.
template <class A = NoAttributes>
OperatorFunction<A> register_differentiable(OperatorRegistry& registry, std::string_view name,
                                            std::string_view forward,
                                            std::initializer_list<std::string_view> backward,
                                            Place place = Place::here()) {
  constexpr std::string_view operation = "register_differentiable";
  detail::DifferentiablePair pair{&registry.at(forward), {}};
  const Operator& op = *pair.forward;
  if (op.outputs != 1 || op.makes_outputs() || op.writes_inputs != 0)
    fail(error_id::operator_incomplete, operation, "forward", quoted(forward),
         "an operator with one output and a shape rule for its sizes");
  if (backward.size() > op.max_inputs)
    fail(error_id::operator_inputs, operation, "backward",
         std::to_string(backward.size()) + " operators",
         "at most one for each of " + std::to_string(op.max_inputs) + " inputs");
  for (const std::string_view one : backward) {
    const Operator* found = one.empty() ? nullptr : &registry.at(one);
    if (found != nullptr && (found->outputs != 1 || found->min_inputs > op.min_inputs + 1 ||
                             found->max_inputs < op.max_inputs + 1))
      fail(error_id::operator_inputs, operation, quoted(one),
           "of " + std::to_string(found->min_inputs) + " inputs and " +
               std::to_string(found->outputs) + " outputs",
           "the output's gradient and the inputs of " + quoted(forward) + ", and one output");
    pair.backward.push_back(found);
  }
  Owner state(std::move(pair));
  Operator record{.name = name,
                  .min_inputs = op.min_inputs,
                  .max_inputs = op.max_inputs,
                  .keeps_inputs = ~std::uint32_t{0},
                  .keeps_outputs = 0,
                  .composite = true,
                  .shape = &detail::differentiable_shape,
                  .host = &detail::differentiable_host,
                  .gradient = &detail::differentiable_gradient,
                  .samples = op.samples,
                  .state = state.get()};
  return OperatorFunction<A>(registry.add({record, std::move(state)}, place.text()));
}

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/differentiable.ipp>
#endif
