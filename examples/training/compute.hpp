// The computing device: a context on the host's cores, and on request a NeuronCore model that runs
// its operators.
#pragma once

#include "training/run_options.hpp"

#include <soma/programs/neuroncore_device.hpp>
#include <soma/runtime/context.hpp>

#include <iosfwd>
#include <memory>

class Compute {
 public:
  // `usual_threads`: where the options leave the number open; 0: as many as the machine has cores.
  // Errors of make_context; UsageError: an option of a device that is not asked for.
  explicit Compute(const ComputeOptions& options, int usual_threads = 0);
  ~Compute() { context_.set_device(nullptr); }
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;

  soma::Context& context() { return context_; }
  // The accelerator's device; nullptr if the host computes.
  const soma::NeuronCoreDevice* device() const { return device_.get(); }
  // The device memory that its tensors took at most so far.
  std::uint64_t device_bytes() const { return core_->hbm_high_water(); }
  // Prints a few lines about the accelerator's work; nothing on the host.
  void report(std::ostream& out) const;

 private:
  soma::Context context_;
  std::unique_ptr<soma::neuroncore::Core> core_;
  std::unique_ptr<soma::NeuronCoreDevice> device_;
};
