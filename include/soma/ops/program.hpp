#pragma once
// Program: an operator written as instructions of a NeuronCore, in the style of a kernel author:
// tiles of SBUF, products in PSUM, transfers that overlap with work. Its host kernel computes the
// same; a generic test compares both with the operator's reference.

#include <soma/ops/operator.hpp>

#include <cstdint>

namespace SOMA_NAMESPACE {

namespace neuroncore {
class Core;
}

struct Program {
  // Tensors are in device memory; tiles that the program allocates are freed after it. Called with
  // allocated outputs, and only if they have elements.
  void (*run)(neuroncore::Core&, const OperatorCall&) = nullptr;
  // The error bound: the sample's bound times `error`, plus `roundings` roundings of intermediate
  // results to the type of the inputs, relative to the largest result.
  double error = 1, roundings = 0;
  // Bit i: the program reads input i on the host (programs::HostNumbers), to check it or to cut its
  // work by it: ids, labels, numbers of rows. A device runs whatever writes such an input, and
  // waits for it, before it records or runs the call. All other inputs are read by transfers only.
  std::uint32_t host_inputs = 0;
};

struct OperatorProgram {
  const Operator* op;
  Program program;
};

}  // namespace SOMA_NAMESPACE
