#pragma once
// The model of a core's eight GPSIMD processors: limits, parameters of their time, and the counts
// that the time depends on.
//
// Limits are those of the vendor's documentation of custom operators (neuron-customops/: the
// programming guide and the API reference). Times of single accesses are not published: parameters
// below that say "undisclosed" are this model's, and reproduce two published runs of operators.

#include <soma/neuroncore/machine.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::neuroncore {

inline constexpr std::size_t most_processors = 8;

struct ProcessorModel {
  std::size_t processors = most_processors;  // at most that many
  std::size_t pool_bytes = 16 * 1024;        // local memory (TCM) that a kernel may allocate
  std::size_t stream_bytes = 4 * 1024;       // bytes of the pool that each open stream takes
  double ghz = trn1().gpsimd_ghz;
  double vector_bytes = 64;   // a cycle: 512 bits
  double start_cycles = 150;  // published for built-in instructions

  // Undisclosed. 242 ns for an element that is read or written by reference reproduce the published
  // 123.5 ms for a ReLU of 196,608 elements and 8.51 ms for 6,528 elements with its gradient.
  double element_access_ns = 242;
  // A transfer between device memory and local memory: as any other transfer of the core.
  double transfer_start_ns = trn1().dma_start_ns;
  double transfer_least_ns = trn1().dma_buffer_ns;
  double transfer_gb_per_s = trn1().dma_engine_gb_per_s;
  // Undisclosed. Arithmetic on raw pointers to local memory is invisible to the model; instead this
  // number of cycles is charged for each element that a copy or a stream brings in or takes out.
  double staged_element_cycles = 5;
  double printf_ns = 1000;  // undisclosed; a call costs that also where its text is not kept
};

// The work of one processor.
struct ProcessorCounts {
  std::uint64_t element_accesses = 0;  // by reference, or through a stream without a buffer
  std::uint64_t stream_blocks = 0;
  std::uint64_t copies = 0;           // between a tensor and local memory, by accessor
  std::uint64_t bulk_blocks = 0;      // by fills, functions of whole tensors and returned tensors
  std::uint64_t staged_elements = 0;  // brought in or taken out by copies and streams
  std::uint64_t bytes_read = 0, bytes_written = 0;  // bytes of device memory
  std::uint64_t vector_cycles = 0;                  // cycles of functions of whole tensors
  std::uint64_t print_calls = 0;
  double transfer_ns = 0;

  void transfer(const ProcessorModel& model, std::size_t bytes);
  double nanoseconds(const ProcessorModel& model) const;
};

// One call of an operator. Processors work at the same time: the slowest one decides.
struct ProcessorReport {
  std::size_t processors = 0;
  std::array<ProcessorCounts, most_processors> counts{};
  double nanoseconds = 0;

  std::uint64_t bytes_read() const;
  std::uint64_t bytes_written() const;
  std::uint64_t sum(std::uint64_t ProcessorCounts::*member) const;
};

// Options for kernels of a library.
struct ProcessorOptions {
  ProcessorModel model{};
  // The bytes of printf() text that are kept for the context's log until a run has ended; the
  // oldest text is overwritten. A power of two up to 131072, or 0: none.
  std::size_t printf_bytes = 0;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/processors/impl/model.ipp>
#endif
