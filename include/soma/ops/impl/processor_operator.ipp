#pragma once
// The functions of processor_operator.hpp.

#include <soma/ops/processor_operator.hpp>

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

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE neuroncore::ProcessorKernel ProcessorOperator::kernel() const {
  return {name, record, library->options};
}

SOMA_INLINE const ProcessorOperator& processor_operator_of(const void* state) {
  return *static_cast<const ProcessorOperator*>(state);
}

SOMA_INLINE KeptOfCall::~KeptOfCall() {
  if (records.empty()) return;
  const Mutex::Lock lock(library_.mutex);
  for (auto& record : records) library_.kept.push_back(std::move(record));
}

SOMA_INLINE const unsigned char* processor_numbers(const ProcessorOperator& op,
                                                   const Attributes& attributes) {
  constexpr std::size_t bytes = 8;
  if (attributes.bytes().size() != bytes * op.numbers)
    fail(error_id::operator_attributes, op.name, "attributes",
         std::to_string(attributes.bytes().size()) + " bytes",
         std::to_string(bytes * op.numbers) + ", 8 for each number");
  return reinterpret_cast<const unsigned char*>(attributes.bytes().data());
}

SOMA_INLINE void processor_shape(const ShapeCall& call) {
  const ProcessorOperator& op = processor_operator_of(call.state);
  const unsigned char* numbers = processor_numbers(op, call.attributes);
  KeptOfCall kept(*op.library);
  const auto [shape, dtype] =
      neuroncore::run_shape_function(op.kernel(), call.inputs, numbers, kept.records);
  call.outputs[0] = {shape, dtype};
}

SOMA_INLINE ProcessorWork run_on_processors(const OperatorCall& call) {
  const ProcessorOperator& op = processor_operator_of(call.state);
  const unsigned char* numbers = processor_numbers(op, call.attributes);
  HeapVector<Tensor> inputs(call.context.heap());
  inputs.reserve(call.inputs.size());
  for (const Tensor& input : call.inputs) inputs.push_back(contiguous(call.context, input));
  KeptOfCall kept(*op.library);
  const neuroncore::ProcessorReport report = neuroncore::run_kernel(
      op.kernel(), call.context, inputs, numbers, call.outputs[0], kept.records);
  const Mutex::Lock lock(op.mutex);
  op.last = report;
  return {report.bytes_read(), report.bytes_written(), report.nanoseconds};
}

SOMA_INLINE void processor_host(const OperatorCall& call) { run_on_processors(call); }

SOMA_INLINE std::string problem_of(const soma_kernel_operator* op) {
  constexpr std::size_t longest = 200, most_numbers = 12;
  if (op == nullptr) return "a null record";
  if (op->struct_bytes != sizeof(soma_kernel_operator))
    return "a record of " + std::to_string(op->struct_bytes) + " bytes, not " +
           std::to_string(sizeof(soma_kernel_operator));
  if (op->name == nullptr) return "a record without a name";
  if (std::memchr(op->name, 0, longest) == nullptr) return "a name of more than 200 bytes";
  const std::string name = quoted(op->name);
  if (op->kernel == nullptr) return name + " without a kernel";
  if (op->parameter_count > most_inputs + most_numbers ||
      (op->parameters == nullptr && op->parameter_count != 0))
    return name + " with " + std::to_string(op->parameter_count) + " parameters";
  std::size_t tensors = 0;
  for (std::uint32_t i = 0; i < op->parameter_count; ++i) {
    if (op->parameters[i] < SOMA_PARAMETER_TENSOR || op->parameters[i] > SOMA_PARAMETER_INT64)
      return name + " with a parameter of kind " + std::to_string(op->parameters[i]);
    if (op->parameters[i] == SOMA_PARAMETER_TENSOR) ++tensors;
  }
  if (tensors > most_inputs || op->parameter_count - tensors > most_numbers)
    return name + " with " + std::to_string(tensors) + " tensors and " +
           std::to_string(op->parameter_count - tensors) + " numbers";
  if (op->multicore > 1) return name + " with multicore " + std::to_string(op->multicore);
  if (op->multicore == 1 && op->shape == nullptr)
    return name + " for several processors without a shape function";
  return {};
}

SOMA_INLINE NewOperator make_processor_operator(const soma_kernel_operator& op,
                                                const std::shared_ptr<ProcessorLibrary>& library) {
  auto made = std::make_unique<ProcessorOperator>();
  made->library = library;
  made->name = op.name;
  made->parameters.assign(op.parameters, op.parameters + op.parameter_count);
  made->record = op;
  made->record.name = made->name.c_str();
  made->record.parameters = made->parameters.data();
  for (const std::int32_t kind : made->parameters)
    ++(kind == SOMA_PARAMETER_TENSOR ? made->tensors : made->numbers);
  const ProcessorOperator& kept = *made;
  Operator record{.name = kept.name,
                  .min_inputs = kept.tensors,
                  .max_inputs = kept.tensors,
                  .outputs = 1,
                  .allocates_outputs = op.shape == nullptr,
                  .shape = op.shape == nullptr ? nullptr : &processor_shape,
                  .host = &processor_host,
                  .on_processors = op.shape == nullptr ? nullptr : &run_on_processors,
                  .state = &kept};
  return {record, Owner(std::move(made))};
}

SOMA_INLINE const ProcessorOperator* find_processor_operator(const Operator& op) {
  return op.host == &processor_host ? &processor_operator_of(op.state) : nullptr;
}

SOMA_INLINE void check_processor_library(Context& context, std::string_view operation,
                                         std::string_view path,
                                         const neuroncore::ProcessorOptions& options) {
  constexpr std::size_t largest = 131072;
  const std::size_t bytes = options.printf_bytes;
  if (bytes > largest || (bytes & (bytes - 1)) != 0)
    neuroncore::rule_broken(operation, "printf_bytes", std::to_string(bytes),
                            "0, or a power of two up to 131072");
  if (options.model.processors == 0 || options.model.processors > neuroncore::most_processors)
    neuroncore::rule_broken(operation, "processors", std::to_string(options.model.processors),
                            "1 to 8");
  for (const Operator* op : context.operators().all())
    if (find_processor_operator(*op) != nullptr && op->registration->place != path)
      neuroncore::rule_broken(operation, "library",
                              quoted(path).append(" beside ").append(op->registration->place),
                              "one library of kernels in a model");
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE neuroncore::ProcessorReport processor_report(const Operator& op) {
  const detail::ProcessorOperator* found = detail::find_processor_operator(op);
  if (found == nullptr)
    fail(error_id::operator_unknown, "processor_report", "operator", quoted(op.name),
         "a kernel of GPSIMD processors");
  const Mutex::Lock lock(found->mutex);
  return found->last;
}

}  // namespace SOMA_NAMESPACE
