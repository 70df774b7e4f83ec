#pragma once
// The functions of model.hpp.

#include <soma/neuroncore/processors/model.hpp>

#include <soma/neuroncore/machine.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE void ProcessorCounts::transfer(const ProcessorModel& model, std::size_t bytes) {
  transfer_ns +=
      model.transfer_start_ns +
      (std::max)(model.transfer_least_ns, static_cast<double>(bytes) / model.transfer_gb_per_s);
}

SOMA_INLINE double ProcessorCounts::nanoseconds(const ProcessorModel& model) const {
  const double cycles = model.start_cycles + static_cast<double>(vector_cycles) +
                        model.staged_element_cycles * static_cast<double>(staged_elements);
  return cycles / model.ghz + model.element_access_ns * static_cast<double>(element_accesses) +
         transfer_ns + model.printf_ns * static_cast<double>(print_calls);
}

SOMA_INLINE std::uint64_t ProcessorReport::bytes_read() const {
  return sum(&ProcessorCounts::bytes_read);
}

SOMA_INLINE std::uint64_t ProcessorReport::bytes_written() const {
  return sum(&ProcessorCounts::bytes_written);
}

SOMA_INLINE std::uint64_t ProcessorReport::sum(std::uint64_t ProcessorCounts::*member) const {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < processors; ++i) total += counts[i].*member;
  return total;
}

}  // namespace SOMA_NAMESPACE::neuroncore
