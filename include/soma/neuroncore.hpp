#pragma once
// One NeuronCore on a CPU: the engines of AWS Trainium's core with their limits, instruction by
// instruction, and a device that runs whole models on the core. Include it beside soma.hpp. With
// soma::dispatch its inner loops come from the compiled library.

#include <soma/neuroncore/core.hpp>
#include <soma/neuroncore/stress.hpp>
#include <soma/programs/device_scalars.hpp>
#include <soma/programs/neuroncore_device.hpp>
#include <soma/soma.hpp>

#ifdef SOMA_DISPATCH
#include <soma/dispatch/engine.hpp>

namespace SOMA_NAMESPACE::neuroncore {

// A core that uses the context's executor and memory. The context must outlive it.
inline Core make_core(Context& context, const Machine& machine = trn1(),
                      const CoreOptions& options = {}) {
  return Core(context, machine, options, dispatch::engine_kernels(context.target().name));
}

// A device that runs the operators of the core's context as programs on the core.
inline NeuronCoreDevice make_device(Core& core, const RunOptions& options = {}) {
  return NeuronCoreDevice(core, dispatch::built_in_programs(), options);
}

}  // namespace SOMA_NAMESPACE::neuroncore
#else
#include <soma/static_engine-inl.hpp>
#endif
