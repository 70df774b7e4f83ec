// A context whose operators run on a core, for as long as this lives.
#pragma once

#include <soma/neuroncore.hpp>

#include "catch.hpp"
#include "support/at_once.hpp"

#include <cstdint>

namespace soma_test {

// Reading what nobody wrote, and arguments outside a function's range, are errors.
inline constexpr soma::neuroncore::CoreOptions strict{
    .uninitialised = soma::neuroncore::Uninitialised::error,
    .out_of_range = soma::neuroncore::OutOfRange::error};

// The same, with transfers that end as late as they may; 0: at once.
inline soma::neuroncore::CoreOptions stressed(std::uint64_t seed) {
  soma::neuroncore::CoreOptions options = strict;
  options.dma_stress_seed = seed;
  return options;
}

// Checks, when it ends, that nothing ran on the host and that SBUF was large enough.
class OnDevice {
 public:
  explicit OnDevice(soma::Context& context, const soma::neuroncore::CoreOptions& options = strict,
                    const soma::RunOptions& run = {},
                    const soma::neuroncore::Machine& machine = at_once())
      : context_(context),
        core_(soma::neuroncore::make_core(context, machine, options)),
        device_(soma::neuroncore::make_device(core_, run)) {
    context.set_device(&device_);
  }
  ~OnDevice() {
    context_.set_device(nullptr);
    CHECK(core_.sbuf.high_water() <= core_.sbuf.capacity());
    for (const soma::NeuronCoreDevice::Count& count : device_.counts()) {
      INFO(count.name);
      CHECK(count.host == 0);
    }
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  const soma::NeuronCoreDevice& device() const { return device_; }
  soma::NeuronCoreDevice& device() { return device_; }

 private:
  soma::Context& context_;
  soma::neuroncore::Core core_;
  soma::NeuronCoreDevice device_;
};

}  // namespace soma_test
