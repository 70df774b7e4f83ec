#pragma once
// Processor: one of the eight GPSIMD processors while it runs a kernel. It provides the services of
// soma/plugin.h, refuses calls that the hardware's documents forbid, and counts.

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

// A tensor whose reference a library has kept after the call: its record stays until the library is
// unloaded, so that releasing the reference is harmless.
using KeptRecords = std::vector<std::unique_ptr<ProcessorTensor>>;

// The common settings of the processors of a call.
struct KernelSetting {
  std::string_view name;
  const ProcessorOptions& options;
  Context* context = nullptr;  // nullptr: a shape function, whose tensors have no elements
  bool multicore = false, has_shape = true;

  bool shape_function() const { return context == nullptr; }
  void log(LogLevel level, const std::string& message) const;
};

class Processor {
 public:
  Processor(const KernelSetting& setting, std::size_t id, std::size_t count,
            const soma_processor_services& services);
  Processor(const Processor&) = delete;
  Processor& operator=(const Processor&) = delete;

  soma_processor& record() { return record_; }
  std::size_t id() const { return record_.id; }
  ProcessorTensor& add(TensorRole role, std::size_t number);
  // "processor 3, input 0"
  std::string where() const;
  std::string where(const ProcessorTensor& tensor) const;

  // ---- services (each Error ends the kernel: see services.hpp)

  ProcessorTensor& make(std::int32_t dtype, std::span<const std::int64_t> sizes);
  void release(soma_processor_tensor* released);
  void fill(ProcessorTensor& tensor, const soma_processor_operand& value);
  ProcessorTensor& apply(std::int32_t number, ProcessorTensor* result,
                         std::span<const soma_processor_operand> operands);

  void open_elements(ProcessorTensor& tensor, std::int32_t dtype, std::int32_t rank, bool writes);
  [[noreturn]] void bad_index(const ProcessorTensor& tensor, std::int32_t dimension,
                              std::int64_t index) const;
  // Accessors that may disagree about the elements of a tensor.
  void incoherent(ProcessorTensor& tensor, std::string_view what);

  ProcessorStream& open_stream(ProcessorTensor& tensor, std::int32_t dtype, bool writes);
  // Moves a stream to its next block; written elements go to the tensor first.
  void advance(ProcessorStream& stream);
  void close(ProcessorStream& stream);
  void end(ProcessorStream& ended);

  // Returns nullptr if the pool is exhausted.
  void* allocate(std::size_t bytes);
  void free(void* pointer);
  void copy(ProcessorTensor& tensor, std::int32_t dtype, void* local, std::uint64_t first,
            std::uint64_t count, bool to_tensor);

  ProcessorTensor& output();
  [[noreturn]] void refuse(std::string_view what, std::string_view given,
                           std::string_view wanted) const;
  void print(const char* text, std::size_t bytes);

  // ---- for the runner

  // Keeps the exception that is being handled: the first one ends the kernel and the call.
  void keep_problem() noexcept;
  void raise_problem() const;

  void set_output(ProcessorTensor& output) { output_ = &output; }
  bool output_used() const { return output_used_; }
  std::vector<std::unique_ptr<ProcessorTensor>>& tensors() { return tensors_; }
  ProcessorTensor* output_tensor() const { return output_; }

  // A whole tensor moves between device memory and the processor, a block at a time.
  void bulk(ProcessorTensor& tensor, bool writes);
  // Returns the counts, and logs leftover memory. Error neuroncore.undefined: bytes beside a block
  // of local memory were written.
  ProcessorCounts finish();

 private:
  void no_shape_function(const ProcessorTensor& tensor) const;
  void check_accessor(const ProcessorTensor& tensor, std::string_view accessor, std::int32_t dtype,
                      bool single) const;
  void check_writable(const ProcessorTensor& tensor) const;
  void flush(ProcessorStream& stream);
  void moved(const ProcessorStream& stream, std::uint64_t count);
  void count_elements(ProcessorTensor& tensor);
  const KernelSetting& setting_;
  soma_processor record_{};
  std::vector<std::unique_ptr<ProcessorTensor>> tensors_;
  std::vector<std::unique_ptr<ProcessorStream>> streams_;
  LocalMemory memory_;
  std::size_t made_ = 0;
  ProcessorTensor* output_ = nullptr;
  bool output_used_ = false;
  ProcessorCounts counts_;
  PrintQueue prints_;
  std::exception_ptr problem_;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/processors/impl/processor.ipp>
#endif
