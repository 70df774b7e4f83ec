#pragma once
// Program: an operator written as instructions of a NeuronCore, in the style of a kernel author:
// tiles of SBUF, products in PSUM, transfers that overlap with work. Its host kernel computes the
// same; a generic test compares both with the operator's reference.

#include <soma/ops/operator.hpp>

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
};

struct OperatorProgram {
  const Operator* op;
  Program program;
};

}  // namespace SOMA_NAMESPACE
