#pragma once
// The functions of run.hpp.

#include <soma/neuroncore/processors/run.hpp>

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

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE soma_processor_tensor* call_kernel(const ProcessorKernel& kernel, soma_kernel function,
                                               Processor& processor,
                                               std::span<soma_processor_tensor* const> tensors,
                                               const unsigned char* scalars) {
  char message[512] = {};
  soma_kernel_call call{};
  call.state = kernel.record.state;
  call.processor = &processor.record();
  call.tensors = tensors.data();
  call.scalars = scalars;
  call.message = message;
  call.message_bytes = sizeof message;
  const int status = function(&call);
  processor.raise_problem();
  if (status != 0) {
    message[sizeof message - 1] = '\0';
    std::string given = "status " + std::to_string(status);
    if (message[0] != '\0') given.append(": ").append(quoted(message));
    fail(error_id::plugin_failed, kernel.name, processor.where(), given, "status 0");
  }
  return call.result;
}

SOMA_INLINE void keep_referenced(Processor& processor, KeptRecords& kept) {
  for (auto& tensor : processor.tensors()) {
    const std::uint64_t own = tensor->role == TensorRole::made ? 0 : 1;
    if (tensor->references <= own) continue;
    tensor->data = nullptr;
    tensor->memory = {};
    kept.push_back(std::move(tensor));
  }
}

SOMA_INLINE KeepReferenced::~KeepReferenced() {
  for (const auto& processor : list) keep_referenced(*processor, kept);
}

SOMA_INLINE void check_races(const ProcessorKernel& kernel,
                             std::span<const std::unique_ptr<Processor>> processors,
                             std::size_t tensor) {
  struct Touch {
    ElementRange range;
    std::uint32_t processor;
    bool writes;
  };
  std::vector<Touch> touches;
  bool written = false;
  for (std::size_t i = 0; i < processors.size(); ++i) {
    const ProcessorTensor& touched = *processors[i]->tensors()[tensor];
    for (const ElementRange& range : touched.reads.ranges())
      touches.push_back({range, static_cast<std::uint32_t>(i), false});
    for (const ElementRange& range : touched.writes.ranges())
      touches.push_back({range, static_cast<std::uint32_t>(i), true});
    written = written || !touched.writes.ranges().empty();
  }
  if (!written) return;
  std::stable_sort(touches.begin(), touches.end(),
                   [](const Touch& a, const Touch& b) { return a.range.begin < b.range.begin; });
  // The ends of the ranges that began earlier, by processor and by kind of access.
  std::array<std::array<std::uint64_t, 2>, most_processors> ends{};
  for (const Touch& touch : touches) {
    for (std::uint32_t other = 0; other < processors.size(); ++other)
      for (const bool writes : {true, false})
        if (other != touch.processor && (writes || touch.writes) &&
            ends[other][writes] > touch.range.begin)
          fail(error_id::neuroncore_race, kernel.name,
               processors[touch.processor]->where(*processors[touch.processor]->tensors()[tensor]),
               processors[0]->tensors()[tensor]->part(touch.range.begin, touch.range.begin + 1) +
                   ", which it " + (touch.writes ? "writes" : "reads") + " and processor " +
                   std::to_string(other) + (writes ? " writes" : " reads"),
               "elements that no other processor touches where one writes them");
    std::uint64_t& end = ends[touch.processor][touch.writes];
    end = (std::max)(end, touch.range.end);
  }
}

SOMA_INLINE void check_all_written(const ProcessorKernel& kernel,
                                   std::span<const std::unique_ptr<Processor>> processors,
                                   std::size_t tensor) {
  std::vector<ElementRange> ranges;
  for (const auto& processor : processors) {
    const ProcessorTensor& output = *processor->tensors()[tensor];
    ranges.insert(ranges.end(), output.writes.ranges().begin(), output.writes.ranges().end());
    for (std::size_t i = 0; i < output.written_map.size(); ++i)
      if (output.written_map[i] != 0) {
        if (!ranges.empty() && ranges.back().end == i)
          ranges.back().end = i + 1;
        else
          ranges.push_back({i, i + 1});
      }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const ElementRange& a, const ElementRange& b) { return a.begin < b.begin; });
  std::uint64_t end = 0;
  for (const ElementRange& range : ranges) {
    if (range.begin > end) break;
    end = (std::max)(end, range.end);
  }
  const ProcessorTensor& output = *processors[0]->tensors()[tensor];
  if (end < output.count())
    undefined(kernel.name, output.name(), output.part(end, end + 1) + ", which is never written",
              "all elements written");
}

SOMA_INLINE void check_inputs(const ProcessorKernel& kernel, Processor& processor) {
  for (const auto& tensor : processor.tensors()) {
    if (tensor->given == nullptr) continue;
    const std::size_t width = tensor->width(), bytes = tensor->count() * width;
    if (bytes == 0 || std::memcmp(tensor->given, tensor->data, bytes) == 0) continue;
    std::size_t at = 0;
    while (std::memcmp(tensor->given + at * width, tensor->bytes() + at * width, width) == 0) ++at;
    undefined(kernel.name, processor.where(*tensor), tensor->part(at, at + 1) + ", written",
              "inputs only read");
  }
}

SOMA_INLINE std::vector<soma_processor_tensor*> add_inputs(Processor& processor,
                                                           std::span<const Tensor> inputs,
                                                           bool elements) {
  std::vector<soma_processor_tensor*> tensors;
  tensors.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    ProcessorTensor& tensor = processor.add(TensorRole::input, tensors.size());
    tensor.set(input.dtype(), input.shape());
    if (elements) tensor.data = const_cast<std::byte*>(input.raw());
    tensors.push_back(&tensor);
  }
  return tensors;
}

SOMA_INLINE Shape shape_of(const ProcessorTensor& tensor) {
  std::size_t sizes[max_rank];
  for (std::size_t i = 0; i < tensor.size_list().size(); ++i)
    sizes[i] = static_cast<std::size_t>(tensor.sizes[i]);
  return Shape(std::span<const std::size_t>(sizes, tensor.size_list().size()));
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE std::pair<Shape, DType> run_shape_function(const ProcessorKernel& kernel,
                                                       std::span<const Tensor> inputs,
                                                       const unsigned char* scalars,
                                                       KeptRecords& kept) {
  const KernelSetting setting{.name = kernel.name, .options = kernel.options};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ProcessorTensor tensor;
    tensor.set(inputs[i].dtype(), inputs[i].shape());
    check_processor_tensor(kernel.name, "input " + std::to_string(i), tensor.dtype,
                           tensor.size_list());
  }
  detail::KeepReferenced keeper{.kept = kept};
  keeper.list.push_back(std::make_unique<Processor>(setting, 0, 1, detail::processor_services));
  Processor& processor = *keeper.list.back();
  const auto tensors = detail::add_inputs(processor, inputs, false);
  soma_processor_tensor* result =
      detail::call_kernel(kernel, kernel.record.shape, processor, tensors, scalars);
  if (result == nullptr) rule_broken(kernel.name, "shape function", "without a result", "a tensor");
  const ProcessorTensor& made = detail::tensor_of(*result);
  const std::pair<Shape, DType> output(detail::shape_of(made), made.type());
  --result->references;
  return output;
}

SOMA_INLINE ProcessorReport run_kernel(const ProcessorKernel& kernel, Context& context,
                                       std::span<const Tensor> inputs, const unsigned char* scalars,
                                       Tensor& output, KeptRecords& kept) {
  const bool multicore = kernel.record.multicore != 0, has_shape = kernel.record.shape != nullptr;
  const KernelSetting setting{.name = kernel.name,
                              .options = kernel.options,
                              .context = &context,
                              .multicore = multicore,
                              .has_shape = has_shape};
  ProcessorReport report;
  report.processors = multicore ? kernel.options.model.processors : 1;
  detail::KeepReferenced keeper{.kept = kept};
  auto& processors = keeper.list;
  processors.reserve(report.processors);
  for (std::size_t id = 0; id < report.processors; ++id) {
    processors.push_back(
        std::make_unique<Processor>(setting, id, report.processors, detail::processor_services));
    Processor& processor = *processors.back();
    const auto tensors = detail::add_inputs(processor, inputs, true);
    if (has_shape) {
      ProcessorTensor& target = processor.add(TensorRole::output, 0);
      target.set(output.dtype(), output.shape());
      target.data = output.elements() == 0 ? nullptr : output.mutable_raw();
      processor.set_output(target);
    }
    soma_processor_tensor* result =
        detail::call_kernel(kernel, kernel.record.kernel, processor, tensors, scalars);
    detail::check_inputs(kernel, processor);
    if (multicore && !processor.output_used())
      undefined(kernel.name, processor.where(), "without a call of get_dst_tensor",
                "the output written there: what a multicore kernel returns is ignored");
    if (!processor.output_used()) {
      if (result == nullptr)
        rule_broken(kernel.name, processor.where() + ", result", "no tensor",
                    "one as the shape function makes it");
      ProcessorTensor& made = detail::tensor_of(*result);
      if (!has_shape)
        output = Tensor::empty(context, detail::shape_of(made), made.type());
      else if (!made.same_sizes(*processor.output_tensor()) ||
               made.dtype != processor.output_tensor()->dtype)
        rule_broken(kernel.name, processor.where() + ", result", made.describe(),
                    output.describe() + ", as the shape function says");
      if (output.bytes() != 0) std::memcpy(output.mutable_raw(), made.data, output.bytes());
      processor.bulk(made, false);
      if (has_shape) processor.bulk(*processor.output_tensor(), true);
    }
    report.counts[id] = processor.finish();
    if (result != nullptr) --result->references;
    report.nanoseconds =
        (std::max)(report.nanoseconds, report.counts[id].nanoseconds(kernel.options.model));
  }
  if (multicore)
    for (std::size_t i = 0; i <= inputs.size(); ++i) detail::check_races(kernel, processors, i);
  if (processors[0]->output_used()) detail::check_all_written(kernel, processors, inputs.size());
  return report;
}

}  // namespace SOMA_NAMESPACE::neuroncore
