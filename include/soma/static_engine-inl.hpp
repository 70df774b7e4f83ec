// Include and go: make_core() with the engine kernels of this unit's flags, and the programs.

#pragma once

#include <soma/neuroncore/core.hpp>
#include <soma/neuroncore/engines/engine-inl.hpp>
#include <soma/programs/all.hpp>
#include <soma/programs/neuroncore_device.hpp>

#include <hwy/highway.h>

namespace SOMA_NAMESPACE::neuroncore {
inline namespace HWY_CONCAT(static_, HWY_NAMESPACE) {

  // A core that uses the context's executor and memory. The context must outlive it.
  [[maybe_unused]] static inline Core make_core(Context & context, const Machine& machine = trn1(),
                                                const CoreOptions& options = {}) {
    return Core(context, machine, options, HWY_NAMESPACE::engine_kernels);
  }

  // A device that runs the operators of the core's context as programs on the core.
  [[maybe_unused]] static inline NeuronCoreDevice make_device(Core & core,
                                                              const RunOptions& options = {}) {
    return NeuronCoreDevice(core, programs::detail::program_list, options);
  }

}  // namespace )
}  // namespace SOMA_NAMESPACE::neuroncore
