// The context on the host's cores and, if the options ask for one, a NeuronCore model that runs the
// context's operators.
#pragma once

#include "bert_classifier/train/options.hpp"

#include <soma/neuroncore.hpp>

#include <iosfwd>
#include <memory>

class Compute {
 public:
  // Errors of make_context.
  explicit Compute(const ComputeOptions& options);
  ~Compute() { context_.set_device(nullptr); }
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;

  soma::Context& context() { return context_; }
  // Prints a few lines about the NeuronCore model's work; prints nothing on the host.
  void report(std::ostream& out) const;

 private:
  soma::Context context_;
  std::unique_ptr<soma::neuroncore::Core> core_;
  std::unique_ptr<soma::NeuronCoreDevice> device_;
};
