#pragma once
// Program: an operator written as instructions of a NeuronCore, as a kernel author would: tiles of
// SBUF, products in PSUM, transfers that overlap with work. Its host kernel computes the same; a
// generic test compares both with the operator's reference.

#include <soma/ops/operator.hpp>

namespace soma {

namespace neuroncore {
class Core;
}

struct Program {
  // Tensors are in device memory; tiles that it allocates are given back after it. Called with the
  // outputs allocated, and only where they have elements.
  void (*run)(neuroncore::Core&, const OperatorCall&) = nullptr;
  // Its error bound: that of the sample times `error`, and so many roundings of intermediate
  // results to the type of the inputs, relative to the largest result.
  double error = 1, roundings = 0;
};

struct OperatorProgram {
  const Operator* op;
  Program program;
};

}  // namespace soma
