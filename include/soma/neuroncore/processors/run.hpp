#pragma once
// A call of a custom operator: its shape function, and its kernel once on each processor.
//
// Processors run one after the other, whatever the host's threads, so that results have the same
// bits every time; conflicting accesses are detected when all have ended. The hardware's time limit
// of a kernel (600 s) and its stack limit are not modelled.

#include <soma/neuroncore/processors/services.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

// A kernel that a library registered, and records that the library may have kept.
struct ProcessorKernel {
  std::string_view name;
  soma_kernel_operator record;
  const ProcessorOptions& options;
};

namespace detail {

// Runs one function of the library on a processor. Errors of its services, and plugin.failed: the
// function reported a failure.
soma_processor_tensor* call_kernel(const ProcessorKernel& kernel, soma_kernel function,
                                   Processor& processor,
                                   std::span<soma_processor_tensor* const> tensors,
                                   const unsigned char* scalars);

// Tensors of a call outlive the call if the library has kept a reference.
void keep_referenced(Processor& processor, KeptRecords& kept);

// Runs at the end of a call, with or without an error.
struct KeepReferenced {
  std::vector<std::unique_ptr<Processor>> list{};
  KeptRecords& kept;
  ~KeepReferenced();
};

// Error neuroncore.race: one processor touched an element that another one writes.
void check_races(const ProcessorKernel& kernel,
                 std::span<const std::unique_ptr<Processor>> processors, std::size_t tensor);

// Error neuroncore.undefined: no processor wrote an element of the output.
void check_all_written(const ProcessorKernel& kernel,
                       std::span<const std::unique_ptr<Processor>> processors, std::size_t tensor);

// Error neuroncore.undefined: an input was written through an element accessor.
void check_inputs(const ProcessorKernel& kernel, Processor& processor);

std::vector<soma_processor_tensor*> add_inputs(Processor& processor, std::span<const Tensor> inputs,
                                               bool elements);

Shape shape_of(const ProcessorTensor& tensor);

}  // namespace detail

// The sizes and type from the shape function. Errors neuroncore.*, plugin.failed.
std::pair<Shape, DType> run_shape_function(const ProcessorKernel& kernel,
                                           std::span<const Tensor> inputs,
                                           const unsigned char* scalars, KeptRecords& kept);

// Runs the kernel into `output`, or makes the output if there is no shape function. Inputs have no
// gaps. Errors neuroncore.*, plugin.failed.
ProcessorReport run_kernel(const ProcessorKernel& kernel, Context& context,
                           std::span<const Tensor> inputs, const unsigned char* scalars,
                           Tensor& output, KeptRecords& kept);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/processors/impl/run.ipp>
#endif
