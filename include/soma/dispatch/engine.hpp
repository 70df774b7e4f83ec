#pragma once
// The NeuronCore part of soma::dispatch: engine kernels for a context's target, and the programs of
// the built-in operators.

#include <soma/neuroncore/engines/engine_kernels.hpp>
#include <soma/ops/program.hpp>

#include <span>
#include <string_view>

namespace SOMA_NAMESPACE::dispatch {

// The engine kernels that are compiled for the target with that name (Context::target().name).
const neuroncore::EngineKernels& engine_kernels(std::string_view target);

std::span<const OperatorProgram> built_in_programs();

}  // namespace SOMA_NAMESPACE::dispatch
