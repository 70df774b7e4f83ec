#pragma once
// FiniteCheck: RunOptions::stop_at_non_finite for one call of an operator. It remembers what the
// call may overwrite, looks at the results, and runs the program again under FiniteWatch to name
// the instruction that went wrong.

#include <soma/neuroncore/core.hpp>
#include <soma/neuroncore/finite_watch.hpp>
#include <soma/numeric/codec.hpp>
#include <soma/ops/program.hpp>
#include <soma/programs/graph/call_graph.hpp>
#include <soma/programs/run_mode.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// "nan at [1, 3]" of the first element in row-major order that is not finite; empty: all are, or
// the tensor holds integers, or nothing.
std::string find_non_finite(const Tensor& tensor);

}  // namespace detail

// Error neuroncore.run_options: stop_at_non_finite of a device that is not eager, or whose core
// does not compute (`computes`).
void check_run_options(const RunOptions& options, bool computes);

class FiniteCheck {
 public:
  // Before the call runs. Not `on`: nothing is done, here and in check().
  FiniteCheck(neuroncore::Core& core, const Operator& op, const OperatorCall& call, bool on);

  // Behind the call. Error neuroncore.not_finite: a result holds NaN or infinity. `program` runs
  // once more then, which leaves the same results; nullptr: the call was no program.
  void check(const Program* program) const;

 private:
  void check_one(const std::string& argument, const Tensor& tensor, const Program* program) const;
  std::string cause(const Program* program) const;
  void restore() const;
  void run_again(const Program& program, neuroncore::FiniteWatch& watch) const;

  neuroncore::Core& core_;
  const Operator& op_;
  const OperatorCall& call_;
  bool on_;
  std::vector<Tensor> before_;  // copies of the inputs that the call may write
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/programs/impl/finite_check.ipp>
#endif
