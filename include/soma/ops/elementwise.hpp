#pragma once
// Custom element-wise operators: y = f(x) of any floating type and any strides, computed in fp32
// and rounded once, in parallel. Shape rule, samples and a second operator for the gradient are
// derived. register_elementwise() makes them (autograd/custom.hpp, xtensor.hpp).

#include <soma/ops/registry.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/samples.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::detail {

// Adjacent elements in fp32: x, or x and dy.
struct Chunk {
  const Attributes& attributes;
  std::array<const float*, 2> inputs;
  float* output;
  std::size_t count;
};
using ChunkFunction = void (*)(const Chunk&);

struct Elementwise {
  std::string name, backward_name;
  ChunkFunction forward, gradient;
  Operator backward{};  // inputs x, dy; output dx
};

const Elementwise& elementwise_of(const void* state);

// The cost of one element is unknown: it is taken as that of an exponential.
void run_chunks(const OperatorCall& call, ChunkFunction function);

OperatorSamples elementwise_inputs(const Attributes& attributes);

// `gradient` may be nullptr. The name is copied.
NewOperator make_elementwise(std::string_view name, ChunkFunction forward, ChunkFunction gradient,
                             OperatorSamples (*samples)());

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/elementwise.ipp>
#endif
