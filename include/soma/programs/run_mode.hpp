#pragma once
// RunMode: when a device of the accelerator runs the operators that it is given. All modes run the
// same programs in the same order and give the same bits; launches, barriers, removed work and
// compilations differ.

#include <soma/neuroncore/machine.hpp>
#include <soma/neuroncore/order/instruction.hpp>
#include <soma/ops/program.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

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

  PredictedTime& operator+=(const PredictedTime& other);
};

struct RunOptions {
  RunMode mode = RunMode::eager;
  std::size_t cache_bytes = std::size_t{64} << 20;  // memory for executables
  // false: a graph without an executable is Error executable.missing, for a run that was compiled
  // ahead of time.
  bool compile = true;
  // Predicts the time of recorded instructions: predict_time() of soma/neuroncore_clock.hpp. Needs
  // CoreOptions::record. Every eager launch is predicted; an executable is predicted once, when it
  // is compiled. nullptr: nothing is predicted.
  PredictedTime (*predict)(std::span<const neuroncore::Instruction>,
                           const neuroncore::Machine&) = nullptr;
  // false: the core's record is dropped after each launch (after after_program()), so that a long
  // run that predicts does not keep all of its instructions.
  bool keep_record = true;
  // A lazy graph of this many calls is logged once: its mark_step() may be missing. 0: never.
  std::size_t warn_calls = 20'000;
  // A compilation after this many steps is logged, with the field that changed: a run whose sizes
  // never settle compiles all the time. A step is a mark_step(), or a launch of a lazy device that
  // is never marked.
  std::uint64_t settled_steps = 100;
  // For an eager device that computes: the first operator whose result holds NaN or infinity is
  // Error neuroncore.not_finite, which names the instruction that wrote it from finite numbers.
  // Costs a pass over all results and copies of the tensors that operators write in place.
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
  PredictedTime predicted{};  // of all launches, where RunOptions::predict predicts them
};

// The work of one operator on a device: its calls, and where they ran.
struct OperatorCount {
  std::string_view name;
  const Program* program = nullptr;  // nullptr: the operator has none
  std::uint64_t programs = 0, host = 0;
  std::array<std::uint64_t, neuroncore::engine_count> instructions{};
  std::uint64_t hbm_bytes = 0;                           // read and written
  std::uint64_t dma_buffers = 0;                         // contiguous pieces that transfers moved
  std::size_t sbuf_high_water = 0, psum_high_water = 0;  // bytes a partition
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/programs/impl/run_mode.ipp>
#endif
