#pragma once
// Runs a sample of an operator, forward and backward, and differentiates the operator's reference
// by differences.

#include <soma/autograd/tape.hpp>
#include <soma/testing/values.hpp>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

struct Result {
  std::vector<ReferenceTensor> outputs, gradients;  // a gradient that is not wanted is not defined
  std::vector<DType> output_types;
  std::string refused;  // the id of the error that it ended in
};

// The weight of an output element in the sum that is differentiated.
double seed_of(std::size_t output, std::size_t element);

// Forward, and backward if there is a gradient, on one output.
void run_inputs(Tape& tape, const Operator& op, const Sample& sample,
                const std::vector<Var>& inputs, Result& result);

// Runs a sample. Without exceptions, an operator that refuses the sample ends the program.
Result run_sample(Context& context, const Operator& op, const Sample& sample,
                  const Variation& variation);

// The reference's inputs: the operator's inputs after they were stored in their type.
std::vector<ReferenceTensor> reference_inputs(const Sample& sample, const Variation& variation);

bool same(const Result& a, const Result& b);

// The host kernel as its own reference: fp32, without gaps, on one thread.
std::vector<ReferenceTensor> host_reference(Context& context, const Operator& op,
                                            const Sample& sample,
                                            const std::vector<ReferenceTensor>& inputs);

// d(sum of weighted outputs)/d(input element) by central differences of step h. `outputs` computes
// the outputs from inputs.
template <class Outputs>
std::vector<double> central_differences(const Outputs& outputs, std::vector<ReferenceTensor> inputs,
                                        std::size_t input, double h) {
  const auto weighted = [&] {
    const ReferenceTensor y = outputs(inputs)[0];
    double total = 0;
    for (std::size_t i = 0; i < y.values.size(); ++i) total += seed_of(0, i) * y.values[i];
    return total;
  };
  std::vector<double> result;
  for (double& element : inputs[input].values) {
    const double middle = element;
    element = middle + h;
    const double above = weighted();
    element = middle - h;
    const double below = weighted();
    element = middle;
    result.push_back((above - below) / (2 * h));
  }
  return result;
}

// Differences of a reference in double. The error of the formula is h^2 / 6 times the third
// derivative, about 1e-9 here.
std::vector<double> difference_quotients(const OperatorSamples& samples, const Sample& sample,
                                         const std::vector<ReferenceTensor>& inputs,
                                         std::size_t input);

inline constexpr double difference_error = 1e-8;

// Differences of the host kernel, in fp32: the step is larger, and so is the error.
inline constexpr double host_step = 0x1p-7, host_difference_error = 0x1p-8;

}  // namespace SOMA_NAMESPACE::testing::detail

#ifndef SOMA_DISPATCH
#include <soma/testing/impl/run_sample.ipp>
#endif
