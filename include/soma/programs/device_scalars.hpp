#pragma once
// DeviceScalars: what a NeuronCoreDevice did, as named numbers: curves over the steps of a run, as
// event files keep them (io/tensorboard.hpp).

#include <soma/programs/neuroncore_device.hpp>
#include <soma/programs/run_mode.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE {

class DeviceScalars {
 public:
  // The device outlives it.
  explicit DeviceScalars(const NeuronCoreDevice& device)
      : device_(device), before_(device.runs().predicted) {}

  // Calls write(name, value). Counts are of all that ran so far: "device/launches", and of a device
  // that is not eager "device/cuts", "device/compilations", "device/hits", "device/removed",
  // "device/apart" and "device/host". Predicted times are of what ran since the last write() or
  // skip(): "device/predicted_ms", and the busy share of each engine, "device/busy/tensor". They
  // are left out where nothing was predicted.
  template <class Write>
  void write(const Write& write) {
    const RunCounts runs = device_.runs();
    const auto count = [&](const char* name, std::uint64_t number) {
      write(std::string("device/") + name, static_cast<double>(number));
    };
    count("launches", runs.launches);
    if (device_.options().mode != RunMode::eager) {
      std::uint64_t cuts = 0;
      for (const RunCounts::Cut& cut : runs.cuts) cuts += cut.count;
      count("cuts", cuts);
      count("compilations", device_.executables().compilations());
      count("hits", device_.executables().hits());
      count("removed", runs.removed);
      count("apart", runs.apart);
      count("host", runs.host);
    }
    const double ns = runs.predicted.ns - before_.ns;
    if (ns > 0) {
      write(std::string("device/predicted_ms"), ns * 1e-6);
      for (std::size_t i = 0; i < neuroncore::engine_count; ++i)
        write("device/busy/" + std::string(to_string(static_cast<neuroncore::Engine>(i))),
              (runs.predicted.busy_ns[i] - before_.busy_ns[i]) / ns);
    }
    before_ = runs.predicted;
  }
  // Leaves the work since the last write() out of the next one: an evaluation between two steps.
  void skip();

 private:
  const NeuronCoreDevice& device_;
  PredictedTime before_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/programs/impl/device_scalars.ipp>
#endif
