#pragma once
// Operators with kernels for the accelerator's GPSIMD processors, from a shared library
// (soma/plugin.h). On the host and on a NeuronCore they run on the same modelled processors.
//
// Inputs keep their types, without gaps. A call's attributes are numbers of 8 bytes: double, or
// std::int64_t for kernels that declare it.

#include <soma/neuroncore/processors/run.hpp>
#include <soma/ops/operator.hpp>
#include <soma/ops/registry.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/system/threads.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

struct ProcessorLibrary {
  neuroncore::ProcessorOptions options{};
  Mutex mutex{};
  neuroncore::KeptRecords kept{};  // ends after the library, whose destructors may count down
  std::shared_ptr<void> handle{};
};

// The state of an operator.
struct ProcessorOperator {
  std::shared_ptr<ProcessorLibrary> library;
  std::string name;
  std::vector<std::int32_t> parameters;
  soma_kernel_operator record;
  std::size_t tensors = 0, numbers = 0;
  mutable Mutex mutex{};
  mutable neuroncore::ProcessorReport last{};

  neuroncore::ProcessorKernel kernel() const;
};

const ProcessorOperator& processor_operator_of(const void* state);

// Records that a library keeps after a call go to the library's own list.
class KeptOfCall {
 public:
  explicit KeptOfCall(ProcessorLibrary& library) : library_(library) {}
  ~KeptOfCall();
  neuroncore::KeptRecords records{};

 private:
  ProcessorLibrary& library_;
};

// Error operator.attributes.
const unsigned char* processor_numbers(const ProcessorOperator& op, const Attributes& attributes);

void processor_shape(const ShapeCall& call);
ProcessorWork run_on_processors(const OperatorCall& call);
void processor_host(const OperatorCall& call);

// The mistake in a record, up to its parameters; empty if there is none.
std::string problem_of(const soma_kernel_operator* op);

// Makes an operator from a checked record.
NewOperator make_processor_operator(const soma_kernel_operator& op,
                                    const std::shared_ptr<ProcessorLibrary>& library);

const ProcessorOperator* find_processor_operator(const Operator& op);

// Errors neuroncore.rule_broken: a second library of kernels in a context; a print queue of a size
// that the runtime refuses.
void check_processor_library(Context& context, std::string_view operation, std::string_view path,
                             const neuroncore::ProcessorOptions& options);

}  // namespace detail

// The work of the processors in the last call of an operator that has ended, and its time on the
// modelled hardware. Thread-safe. Error operator.unknown: the operator is no kernel for processors.
neuroncore::ProcessorReport processor_report(const Operator& op);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/processor_operator.ipp>
#endif
