#pragma once
// The functions of run_sample.hpp.

#include <soma/testing/run_sample.hpp>

#include <soma/autograd/tape.hpp>
#include <soma/ops/records.hpp>
#include <soma/testing/values.hpp>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

SOMA_INLINE double seed_of(std::size_t output, std::size_t element) {
  return static_cast<double>((element * 7 + output * 3) % 11) * 0.125 - 0.625;
}

SOMA_INLINE void run_inputs(Tape& tape, const Operator& op, const Sample& sample,
                            const std::vector<Var>& inputs, Result& result) {
  Context& context = tape.context();
  const VarOutputs outputs = tape.apply_all(op, sample.attributes, inputs);
  for (std::size_t i = 0; i < op.outputs; ++i) {
    result.outputs.push_back(to_reference(context, outputs[i].value()));
    result.output_types.push_back(outputs[i].value().dtype());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)  // inputs that it wrote are results
    if ((op.writes_inputs >> i & 1) != 0 && inputs[i].defined()) {
      result.outputs.push_back(to_reference(context, inputs[i].value()));
      result.output_types.push_back(inputs[i].value().dtype());
    }
  if (op.gradient == nullptr || !outputs[0].requires_gradient()) return;
  const Tensor& y = outputs[0].value();
  const Tensor seed = Tensor::empty(context, y.shape(), y.dtype());
  std::byte* data = seed.mutable_raw();
  for (std::size_t i = 0; i < seed.elements(); ++i)
    store(data + i * size_of(y.dtype()), y.dtype(), seed_of(0, i));
  tape.backward(outputs[0], seed);
  for (const Var& input : inputs) {
    if (!input.requires_gradient()) {
      result.gradients.push_back({.shape = {}, .values = {}, .defined = false});
      continue;
    }
    const Gradient& gradient = input.gradient();
    result.gradients.push_back(
        gradient.defined()
            ? to_reference(context, context.built_in().to_dense(context, gradient, input.shape()))
            : ReferenceTensor{input.shape(), std::vector<double>(input.shape().elements())});
  }
}

SOMA_INLINE Result run_sample(Context& context, const Operator& op, const Sample& sample,
                              const Variation& variation) {
  Result result;
  Sequences sequences;
  if (!sample.lengths.empty() || op.name == "attention")
    sequences = Sequences::from_lengths(context, sample.lengths);
  Tape tape(context);
  std::vector<Var> inputs;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const Tensor value = make_input(context, sample, i, variation);
    if (!value.defined())
      inputs.emplace_back();
    else if (op.gradient != nullptr && is_floating(value.dtype()) &&
             sample.inputs[i].differentiable)
      inputs.push_back(Var::parameter(context, value));
    else
      inputs.push_back(Var::constant(context, value));
    // They belong to the first input that has so many rows.
    if (sequences.defined() && inputs[i].defined() && sequences.fits(inputs[i].value()))
      inputs[i] = tape.with_sequences(inputs[i], std::exchange(sequences, {}));
  }
#if SOMA_HAS_EXCEPTIONS
  try {
    run_inputs(tape, op, sample, inputs, result);
  } catch (const Error& error) {
    result.refused = std::string(error.id().name) + ": " + error.what();
  }
#else
  run_inputs(tape, op, sample, inputs, result);
#endif
  return result;
}

SOMA_INLINE std::vector<ReferenceTensor> reference_inputs(const Sample& sample,
                                                          const Variation& variation) {
  std::vector<ReferenceTensor> inputs;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const SampleInput& description = sample.inputs[i];
    ReferenceTensor input{description.shape, {}, !description.left_out};
    for (std::size_t e = 0; !description.left_out && e < description.shape.elements(); ++e)
      input.values.push_back(stored(dtype_in(description, variation), value_of(sample, i, e)));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

SOMA_INLINE bool same(const Result& a, const Result& b) {
  const auto equal = [](const std::vector<ReferenceTensor>& x,
                        const std::vector<ReferenceTensor>& y) {
    if (x.size() != y.size()) return false;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (x[i].shape != y[i].shape || x[i].values.size() != y[i].values.size() ||
          (!x[i].values.empty() && std::memcmp(x[i].values.data(), y[i].values.data(),
                                               x[i].values.size() * sizeof(double)) != 0))
        return false;
    return true;
  };
  return equal(a.outputs, b.outputs) && equal(a.gradients, b.gradients) && a.refused == b.refused;
}

SOMA_INLINE std::vector<ReferenceTensor> host_reference(
    Context& context, const Operator& op, const Sample& sample,
    const std::vector<ReferenceTensor>& inputs) {
  Sample fixed = sample;
  for (std::size_t i = 0; i < inputs.size(); ++i) fixed.inputs[i].values = inputs[i].values;
  Operator forward = op;
  forward.gradient = nullptr;
  return run_sample(context, forward, fixed, {}).outputs;
}

SOMA_INLINE std::vector<double> difference_quotients(const OperatorSamples& samples,
                                                     const Sample& sample,
                                                     const std::vector<ReferenceTensor>& inputs,
                                                     std::size_t input) {
  return central_differences(
      [&](const std::vector<ReferenceTensor>& at) { return samples.reference(sample, at); }, inputs,
      input, 1e-5);
}

}  // namespace SOMA_NAMESPACE::testing::detail
