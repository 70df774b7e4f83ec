#pragma once
// RunMode: when a device of the accelerator runs the operators that it is given. All modes run the
// same programs in the same order and give the same bits; launches, barriers, removed work and
// compilations differ.

#include <soma/neuroncore/machine.hpp>
#include <soma/neuroncore/order/instruction.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace soma {

enum class RunMode : std::uint8_t {
  eager,  // each operator at once: a launch and a barrier each
  jit,    // the same, with an executable for each operator, its sizes and its settings
  lazy,   // operators are recorded; mark_step(), or reading a result, runs them as one launch
};

struct RunOptions {
  RunMode mode = RunMode::eager;
  std::size_t cache_bytes = std::size_t{64} << 20;  // memory for executables
  // false: a graph without an executable is Error executable.missing, for a run that was compiled
  // ahead of time.
  bool compile = true;
  // Predicts the nanoseconds of recorded instructions (neuroncore/clock/timeline.hpp); nullptr:
  // nothing is predicted.
  double (*predict)(std::span<const neuroncore::Instruction>, const neuroncore::Machine&) = nullptr;
  // Of an eager device that computes: the first operator whose result holds NaN or infinity is
  // Error neuroncore.not_finite, which names the instruction that wrote it from finite numbers.
  // Costs a look at all results and copies of what operators write in place.
  bool stop_at_non_finite = false;
};

struct RunCounts {
  struct Cut {
    // "mark_step"; "read by the host: " and the operator that made, or used, what was read or
    // written; or the operator that cannot be part of a graph.
    std::string cause;
    std::uint64_t count = 0;
  };
  std::uint64_t launches = 0;
  std::vector<Cut> cuts;  // cuts of a lazy device, in the order in which their causes came up
  // Calls of a device that is not eager: on the host; as launches of their own, since their sizes
  // depend on data (Operator::row_inputs) or they have no key; and removed, since nobody needed
  // their results.
  std::uint64_t host = 0, apart = 0, removed = 0;
};

}  // namespace soma
