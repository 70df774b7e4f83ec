#pragma once
// Samples: inputs for tests of an operator, and the plain reference for its results. Only
// soma/testing.hpp reads them; testing/samples/ has those of the built-in operators.

#include <soma/base/config.hpp>
#include <soma/ops/operator.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

// A tensor of the reference: row-major doubles. Whole numbers and flags are doubles too.
struct ReferenceTensor {
  Shape shape;
  std::vector<double> values;
  bool defined = true;
};

struct SampleInput {
  Shape shape{};
  DType dtype = DType::fp32;
  // Elements are drawn uniformly between these bounds, whole numbers for integer types; or they are
  // `values`.
  double low = -1, high = 1;
  std::vector<double> values{};
  bool left_out = false;
  bool differentiable = true;  // for floating inputs: true: the gradient is checked
};

struct Sample {
  std::string name;
  std::vector<SampleInput> inputs;
  Attributes attributes{};
  std::vector<std::size_t> lengths{};  // lengths of the sequences; empty: none
  // The error that fp32 may make in a result, and in a gradient, relative to the largest magnitude
  // of the reference (at least 1): a formula of sizes, times 2^-24.
  double error = 0, gradient_error = 0;
  // An operator that rounds intermediate results: the error that bf16 inputs may add to a result
  // beside its own rounding, relative as above.
  double bf16_error = 0;
};

struct OperatorSamples {
  std::vector<Sample> samples;
  // Computes outputs from inputs, in double. nullptr: there is no plain formula. May return fewer
  // outputs than the operator has: the rest are its notes for backward.
  std::vector<ReferenceTensor> (*reference)(const Sample&,
                                            const std::vector<ReferenceTensor>&) = nullptr;
};

}  // namespace SOMA_NAMESPACE
