#pragma once
// The functions of logical_core.hpp.

#include <soma/neuroncore/logical_core.hpp>

#include <soma/neuroncore/clock/timeline.hpp>

#include <algorithm>
#include <cstddef>
#include <string>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE LogicalCore::LogicalCore(Core& first, Core& second) : cores_{&first, &second} {
  const auto refuse = [&](std::string_view operand, const std::string& given,
                          std::string_view wanted) {
    fail(error_id::neuroncore_instance, "LogicalCore", operand, given, wanted);
  };
  for (const Core* core : cores_)
    if (!core->machine().has(Feature::logical_cores))
      refuse("machine", std::string(core->machine().name),
             "a machine with logical cores: NeuronCore-v3 or later");
  if (&first == &second || &first.context() != &second.context() ||
      first.machine().hbm_bytes != second.machine().hbm_bytes)
    refuse("second", "the same core, or one of another context or machine",
           "another core of the same context and machine");
}

SOMA_INLINE double LogicalCore::take() {
  double longest = 0;
  for (Core* core : cores_) {
    Machine machine = core->machine();
    if (launched_) machine.launch_ns = 0;
    const Record record = core->take_recorded();
    longest = (std::max)(longest, timeline(record.instructions, machine).ns);
  }
  launched_ = launched_ || longest > 0;
  return longest;
}

SOMA_INLINE void LogicalCore::core_barrier() {
  const Machine& machine = cores_[0]->machine();
  before_ += take() + machine.semaphore_hop_cycles / machine.vector_ghz;
}

SOMA_INLINE double LogicalCore::ns() { return before_ += take(); }

}  // namespace SOMA_NAMESPACE::neuroncore
