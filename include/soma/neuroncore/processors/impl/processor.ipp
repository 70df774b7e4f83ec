#pragma once
// The functions of processor.hpp.

#include <soma/neuroncore/processors/processor.hpp>

#include <soma/neuroncore/processors/functions.hpp>
#include <soma/neuroncore/processors/local_memory.hpp>
#include <soma/neuroncore/processors/model.hpp>
#include <soma/neuroncore/processors/tensors.hpp>
#include <soma/runtime/context.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE void KernelSetting::log(LogLevel level, const std::string& message) const {
  if (context != nullptr) context->log(level, std::string(name).append(": ").append(message));
}

SOMA_INLINE Processor::Processor(const KernelSetting& setting, std::size_t id, std::size_t count,
                                 const soma_processor_services& services)
    : setting_(setting), memory_(setting.options.model.pool_bytes) {
  record_.services = &services;
  record_.id = static_cast<std::uint32_t>(id);
  record_.count = static_cast<std::uint32_t>(count);
  record_.prints = id == 0 && setting.options.printf_bytes != 0 ? 1 : 0;
  record_.host = this;
}

SOMA_INLINE ProcessorTensor& Processor::add(TensorRole role, std::size_t number) {
  tensors_.push_back(std::make_unique<ProcessorTensor>());
  ProcessorTensor& tensor = *tensors_.back();
  tensor.role = role;
  tensor.number = number;
  return tensor;
}

SOMA_INLINE std::string Processor::where() const {
  return setting_.shape_function() ? std::string("shape function")
                                   : "processor " + std::to_string(record_.id);
}

SOMA_INLINE std::string Processor::where(const ProcessorTensor& tensor) const {
  return where() + ", " + tensor.name();
}

SOMA_INLINE ProcessorTensor& Processor::make(std::int32_t dtype,
                                             std::span<const std::int64_t> sizes) {
  check_processor_tensor(setting_.name, where() + ", a new tensor", dtype, sizes);
  ProcessorTensor& tensor = add(TensorRole::made, made_++);
  tensor.set(dtype, sizes);
  if (setting_.context != nullptr) {
    const std::size_t bytes = checked_multiply(tensor.count(), tensor.width(), setting_.name);
    tensor.memory = Storage::allocate(setting_.context->heap(), bytes);
    tensor.data = tensor.memory.data();
    if (bytes != 0) std::memset(tensor.data, 0xFF, bytes);
  }
  return tensor;
}

SOMA_INLINE void Processor::release(soma_processor_tensor* released) {
  for (std::size_t i = tensors_.size(); i-- > 0;)
    if (tensors_[i].get() == released) {
      if (tensors_[i]->role != TensorRole::made) return;
      count_elements(*tensors_[i]);
      std::swap(tensors_[i], tensors_.back());
      tensors_.pop_back();
      return;
    }
}

SOMA_INLINE void Processor::fill(ProcessorTensor& tensor, const soma_processor_operand& value) {
  if (setting_.shape_function()) return;  // nobody reads it
  check_writable(tensor);
  const bool floating = is_floating(tensor.type());
  for (std::uint64_t i = 0; i < tensor.count(); ++i)
    if (floating)
      detail::put_processor_float(tensor, i, detail::as_number(value));
    else
      detail::put_processor_integer(tensor, i, detail::as_integer(value));
  bulk(tensor, true);
}

SOMA_INLINE ProcessorTensor& Processor::apply(std::int32_t number, ProcessorTensor* result,
                                              std::span<const soma_processor_operand> operands) {
  const ProcessorFunction* function = find_processor_function(number);
  if (function == nullptr || operands.size() != static_cast<std::size_t>(function->operands))
    rule_broken(setting_.name, where(), "function " + std::to_string(number),
                "one of soma/plugin.h");
  for (const soma_processor_operand& operand : operands)
    if (operand.tensor != nullptr) no_shape_function(detail::tensor_of(*operand.tensor));
  const ProcessorTensor& model =
      check_processor_function(setting_.name, where(), *function, operands, result);
  if (result != nullptr) check_writable(*result);
  ProcessorTensor& target = result != nullptr ? *result : make(model.dtype, model.size_list());
  run_processor_function(number, *function, operands, target);
  for (const soma_processor_operand& operand : operands)
    if (operand.tensor != nullptr) bulk(detail::tensor_of(*operand.tensor), false);
  bulk(target, true);
  const auto width = static_cast<double>(target.width());
  counts_.vector_cycles += static_cast<std::uint64_t>(
      static_cast<double>(target.count()) * width / setting_.options.model.vector_bytes + 1);
  if (result != nullptr) ++target.references;
  return target;
}

SOMA_INLINE void Processor::open_elements(ProcessorTensor& tensor, std::int32_t dtype,
                                          std::int32_t rank, bool writes) {
  check_accessor(tensor, "an element accessor", dtype, true);
  if (rank != tensor.rank)
    rule_broken(setting_.name, where(tensor), "an element accessor of rank " + std::to_string(rank),
                "the rank of " + tensor.describe());
  if (!writes) return;
  // An operator only reads its inputs: an illegal write by a kernel is detected at the kernel's
  // end.
  if (tensor.role == TensorRole::input && tensor.given == nullptr) {
    const std::size_t bytes = tensor.count() * tensor.width();
    tensor.memory = Storage::allocate(setting_.context->heap(), bytes);
    if (bytes != 0) std::memcpy(tensor.memory.data(), tensor.data, bytes);
    tensor.given = tensor.bytes();
    tensor.data = tensor.memory.data();
  }
  if (tensor.role == TensorRole::output && tensor.written == nullptr) {
    tensor.written_map.assign(tensor.count(), 0);
    tensor.written = tensor.written_map.data();
  }
}

SOMA_INLINE void Processor::bad_index(const ProcessorTensor& tensor, std::int32_t dimension,
                                      std::int64_t index) const {
  undefined(setting_.name, where(tensor),
            "index " + std::to_string(index) + " of dimension " + std::to_string(dimension) +
                " of " + tensor.describe(),
            "an index within the dimension");
}

SOMA_INLINE void Processor::incoherent(ProcessorTensor& tensor, std::string_view what) {
  if (tensor.coherence == SOMA_INCOHERENT_QUIET) return;
  if (tensor.coherence == SOMA_COHERENT)
    undefined(setting_.name, where(tensor), std::string(what),
              "several reading streams, or one writing stream, and no element accessor beside "
              "them, unless the tensor's coherence policy allows it");
  if (tensor.said_incoherent) return;
  tensor.said_incoherent = true;
  setting_.log(LogLevel::warning, where(tensor) + " may be incoherent: " + std::string(what));
}

SOMA_INLINE ProcessorStream& Processor::open_stream(ProcessorTensor& tensor, std::int32_t dtype,
                                                    bool writes) {
  check_accessor(tensor, "a stream", dtype, true);
  if (writes) check_writable(tensor);
  if (tensor.write_stream || (writes && tensor.open_streams != 0))
    incoherent(tensor, writes ? "written by a stream while another is open"
                              : "read by a stream while another writes");
  streams_.push_back(std::make_unique<ProcessorStream>());
  ProcessorStream& stream = *streams_.back();
  stream.tensor = &tensor;
  stream.writes = writes;
  stream.host = &stream;
  const std::size_t bytes = setting_.options.model.stream_bytes;
  stream.buffered = memory_.take(bytes);
  stream.buffer.resize(stream.buffered ? bytes / tensor.width() * tensor.width() : tensor.width());
  ++tensor.references;
  ++tensor.open_streams;
  if (writes) tensor.write_stream = true;
  return stream;
}

SOMA_INLINE void Processor::advance(ProcessorStream& stream) {
  ProcessorTensor& tensor = *stream.tensor;
  if (!stream.open)
    undefined(setting_.name, where(tensor), "used through a stream after it was closed",
              "an open stream");
  flush(stream);
  const std::uint64_t left = tensor.count() - stream.position;
  if (left == 0)
    undefined(setting_.name, where(tensor),
              std::string(stream.writes ? "written" : "read") + " by a stream past " +
                  tensor.part(tensor.count(), tensor.count() + 1),
              "a stream that ends with the tensor");
  stream.held = (std::min<std::uint64_t>)(left, stream.buffer.size() / tensor.width());
  const std::size_t bytes = stream.held * tensor.width();
  stream.next = stream.buffer.data();
  stream.end = stream.next + bytes;
  if (stream.writes) return;
  std::memcpy(stream.next, tensor.bytes() + stream.position * tensor.width(), bytes);
  tensor.reads.add(stream.position, stream.position + stream.held);
  moved(stream, stream.held);
  counts_.bytes_read += bytes;
  stream.position += stream.held;
}

SOMA_INLINE void Processor::close(ProcessorStream& stream) {
  if (!stream.open) return;
  flush(stream);
  stream.open = false;
  stream.next = stream.end = nullptr;
  if (stream.buffered) memory_.give(setting_.options.model.stream_bytes);
  --stream.tensor->open_streams;
  if (stream.writes) stream.tensor->write_stream = false;
}

SOMA_INLINE void Processor::end(ProcessorStream& ended) {
  close(ended);
  ProcessorTensor& tensor = *ended.tensor;
  for (std::size_t i = streams_.size(); i-- > 0;)
    if (streams_[i].get() == &ended) {
      std::swap(streams_[i], streams_.back());
      streams_.pop_back();
      break;
    }
  if (--tensor.references == 0) release(&tensor);
}

SOMA_INLINE void* Processor::allocate(std::size_t bytes) {
  if (setting_.shape_function())
    rule_broken(setting_.name, where(), "tcm_malloc", "a kernel: it has no local memory");
  void* const block = memory_.allocate(bytes);
  // Written through, the null pointer ends the program: then this line is the last of the log.
  if (block == nullptr)
    setting_.log(LogLevel::warning,
                 where() + " got a null pointer from tcm_malloc(" + std::to_string(bytes) +
                     "): " + std::to_string(memory_.unused()) + " bytes are left");
  return block;
}

SOMA_INLINE void Processor::free(void* pointer) {
  const std::string problem = memory_.free(pointer);
  if (!problem.empty())
    undefined(setting_.name, where(), problem, "a block of the pool, freed once");
}

SOMA_INLINE void Processor::copy(ProcessorTensor& tensor, std::int32_t dtype, void* local,
                                 std::uint64_t first, std::uint64_t count, bool to_tensor) {
  check_accessor(tensor, "a TCM accessor", dtype, false);
  if (count == 0) return;
  if (first > tensor.count() || count > tensor.count() - first)
    undefined(setting_.name, where(tensor),
              tensor.part(first, count > ~first ? ~std::uint64_t{0} : first + count) +
                  (to_tensor ? " written" : " read") + " by a TCM accessor",
              "elements of the tensor");
  if (to_tensor) check_writable(tensor);
  const std::size_t bytes = count * tensor.width();
  if (const std::string problem = memory_.problem_of(local, bytes); !problem.empty())
    undefined(setting_.name, where(tensor), "copied to or from " + problem,
              "bytes of a block of the pool");
  std::byte* at = tensor.bytes() + first * tensor.width();
  if (to_tensor) {
    std::memcpy(at, local, bytes);
    tensor.writes.add(first, first + count);
    counts_.bytes_written += bytes;
  } else {
    std::memcpy(local, at, bytes);
    tensor.reads.add(first, first + count);
    counts_.bytes_read += bytes;
  }
  ++counts_.copies;
  counts_.staged_elements += count;
  counts_.transfer(setting_.options.model, bytes);
}

SOMA_INLINE ProcessorTensor& Processor::output() {
  if (output_ == nullptr)
    rule_broken(setting_.name, where(), "get_dst_tensor",
                setting_.shape_function() ? "a kernel: a shape function has no output yet"
                                          : "a shape function, which defines the output");
  output_used_ = true;
  ++output_->references;
  return *output_;
}

SOMA_INLINE void Processor::refuse(std::string_view what, std::string_view given,
                                   std::string_view wanted) const {
  rule_broken(setting_.name, where() + ", " + std::string(what), std::string(given), wanted);
}

SOMA_INLINE void Processor::print(const char* text, std::size_t bytes) {
  prints_.append({text, bytes}, setting_.options.printf_bytes);
}

SOMA_INLINE void Processor::keep_problem() noexcept {
  if (problem_ == nullptr) problem_ = std::current_exception();
  record_.failed = 1;
}

SOMA_INLINE void Processor::raise_problem() const {
  if (problem_ != nullptr) std::rethrow_exception(problem_);
}

SOMA_INLINE void Processor::bulk(ProcessorTensor& tensor, bool writes) {
  const ProcessorModel& model = setting_.options.model;
  const std::size_t bytes = tensor.count() * tensor.width();
  for (std::size_t at = 0; at < bytes; at += model.stream_bytes) {
    ++counts_.bulk_blocks;
    counts_.transfer(model, (std::min)(model.stream_bytes, bytes - at));
  }
  (writes ? counts_.bytes_written : counts_.bytes_read) += bytes;
  if (writes)
    tensor.writes.add(0, tensor.count());
  else
    tensor.reads.add(0, tensor.count());
}

SOMA_INLINE ProcessorCounts Processor::finish() {
  if (const std::string over = memory_.overrun(); !over.empty())
    undefined(setting_.name, where(), over + ", written", "writes within blocks of tcm_malloc");
  if (const std::string left = memory_.left(); !left.empty())
    setting_.log(LogLevel::warning, where() + " leaves " + left + " of local memory allocated");
  counts_.print_calls = record_.print_calls;
  for (const auto& tensor : tensors_) count_elements(*tensor);
  prints_.lines(setting_.options.printf_bytes,
                [this](LogLevel level, const std::string& line) { setting_.log(level, line); });
  return counts_;
}

SOMA_INLINE void Processor::no_shape_function(const ProcessorTensor& tensor) const {
  if (setting_.shape_function())
    rule_broken(setting_.name, where(tensor), "read or written",
                "sizes and types only: tensors of a shape function have no elements");
}

SOMA_INLINE void Processor::check_accessor(const ProcessorTensor& tensor, std::string_view accessor,
                                           std::int32_t dtype, bool single) const {
  no_shape_function(tensor);
  if (single && setting_.multicore)
    undefined(setting_.name, where(tensor),
              "used by " + std::string(accessor) + " in a multicore library", "TCM accessors");
  if (dtype != tensor.dtype)
    rule_broken(setting_.name, where(tensor),
                std::string(accessor) + " of " + std::string(to_string(static_cast<DType>(dtype))),
                "the type of " + tensor.describe());
}

SOMA_INLINE void Processor::check_writable(const ProcessorTensor& tensor) const {
  if (tensor.role == TensorRole::input)
    undefined(setting_.name, where(tensor), "written",
              "a tensor that the operator made, or its "
              "output: inputs are only read");
}

SOMA_INLINE void Processor::flush(ProcessorStream& stream) {
  ProcessorTensor& tensor = *stream.tensor;
  if (!stream.writes || stream.next == nullptr) return;
  const auto bytes = static_cast<std::size_t>(stream.next - stream.buffer.data());
  const std::uint64_t count = bytes / tensor.width();
  if (count == 0) return;
  std::memcpy(tensor.bytes() + stream.position * tensor.width(), stream.buffer.data(), bytes);
  tensor.writes.add(stream.position, stream.position + count);
  moved(stream, count);
  counts_.bytes_written += bytes;
  stream.position += count;
  stream.next = stream.end = nullptr;
}

SOMA_INLINE void Processor::moved(const ProcessorStream& stream, std::uint64_t count) {
  if (!stream.buffered) {
    counts_.element_accesses += count;
    return;
  }
  ++counts_.stream_blocks;
  counts_.staged_elements += count;
  counts_.transfer(setting_.options.model, count * stream.tensor->width());
}

SOMA_INLINE void Processor::count_elements(ProcessorTensor& tensor) {
  counts_.element_accesses += std::exchange(tensor.element_accesses, 0);
}

}  // namespace SOMA_NAMESPACE::neuroncore
