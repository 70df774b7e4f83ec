#pragma once
// RunMode: when a device of the accelerator runs the operators that it is given. All modes run the
// same programs in the same order and give the same bits; launches, barriers, removed work and
// compilations differ.

#include <soma/neuroncore/machine.hpp>
#include <soma/neuroncore/order/instruction.hpp>

#include <array>
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

// How long instructions take by the clock's rules, and how long each engine is busy meanwhile
// (neuroncore::Engine); of dma, the mean of the DMA engines. Nanoseconds.
struct PredictedTime {
  double ns = 0;
  std::array<double, neuroncore::engine_count> busy_ns{};

  PredictedTime& operator+=(const PredictedTime& other) {
    ns += other.ns;
    for (std::size_t i = 0; i < busy_ns.size(); ++i) busy_ns[i] += other.busy_ns[i];
    return *this;
  }
};

struct RunOptions {
  RunMode mode = RunMode::eager;
  std::size_t cache_bytes = std::size_t{64} << 20;  // of executables
  // false: a graph without an executable is Error executable.missing, for a run that was compiled
  // ahead of time.
  bool compile = true;
  // Predicts the time of recorded instructions: predict_time() of soma/neuroncore_clock.hpp. Needs
  // CoreOptions::record. Eager launches are predicted each, those of an executable when it is
  // compiled. nullptr: nothing is predicted.
  PredictedTime (*predict)(std::span<const neuroncore::Instruction>,
                           const neuroncore::Machine&) = nullptr;
  // false: the core's record is dropped behind each launch (behind after_program()), so that a long
  // run that predicts does not keep all of its instructions.
  bool keep_record = true;
};

struct RunCounts {
  struct Cut {
    // "mark_step"; "read by the host: " and the operator that made, or used, what was read or
    // written; or the operator that cannot be part of a graph.
    std::string cause;
    std::uint64_t count = 0;
  };
  std::uint64_t launches = 0;
  std::vector<Cut> cuts;  // of a lazy device, in the order in which their causes came up
  // Calls of a device that is not eager: on the host; as launches of their own, since their sizes
  // depend on data (Operator::row_inputs) or they have no key; and removed, since nobody needed
  // their results.
  std::uint64_t host = 0, apart = 0, removed = 0;
  PredictedTime predicted{};  // of all launches, where RunOptions::predict predicts them
};

}  // namespace soma
