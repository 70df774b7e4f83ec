#pragma once
// Device: who runs operators instead of the host's kernels (Context::set_device). It sees every
// operator of every tape, forward, backward and optimizer steps, so recording, simulating or timing
// them is a property of the device and not of each operator.

#include <soma/ops/operator.hpp>

#include <string>

namespace soma {

class GraphLog;  // ops/graph_log.hpp

class Device {
 public:
  virtual ~Device() = default;
  // Outputs are allocated but for operators whose host kernel makes them (makes_views,
  // allocates_outputs). May call op.host(call).
  virtual void run(const Operator& op, const OperatorCall& call) = 0;
  // Whose numbers come out: devices of one name give the same bits. Checkpoints and ranks compare
  // it. One that only looks on leaves computing to the host.
  virtual std::string name() const { return "host"; }
  // Where it notes the calls that it runs in graphs, if it is asked to (GraphLog::keep): ranks
  // compare them. nullptr: it makes no graphs.
  virtual GraphLog* graph_log() { return nullptr; }
};

}  // namespace soma
