#pragma once
// Device: runs operators instead of the host's kernels (Context::set_device). It sees every
// operator of every tape, forward, backward and optimizer steps, so recording, simulating or timing
// them is a property of the device and not of each operator.

#include <soma/ops/operator.hpp>

#include <string>

namespace SOMA_NAMESPACE {

class GraphLog;  // ops/graph_log.hpp

class Device {
 public:
  virtual ~Device() = default;
  // Outputs are already allocated, except for operators whose host kernel makes them (makes_views,
  // allocates_outputs). run() may call op.host(call).
  virtual void run(const Operator& op, const OperatorCall& call) = 0;
  // The name of the arithmetic: devices of one name give the same bits. Checkpoints and ranks
  // compare the name. A device that only observes lets the host compute, and keeps the name "host".
  virtual std::string name() const { return "host"; }
  // Where it notes the calls that it runs in graphs, if it is asked to (GraphLog::keep): ranks
  // compare them. nullptr: it makes no graphs.
  virtual GraphLog* graph_log() { return nullptr; }
};

}  // namespace SOMA_NAMESPACE
