#pragma once
// Checks that the numbers of a Machine describe a core. The numbers may come from a user, and a
// clock of zero or a memory of no bytes would only show much later.

#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/machine.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

namespace detail {

struct MachineCount {
  std::string_view name;
  std::size_t Machine::*field;
  std::size_t most;
  bool may_be_zero = false;
};
// Sizes up to which no computation of the model overflows.
inline constexpr MachineCount machine_counts[] = {
    {"generation", &Machine::generation, 1024},
    {"partitions", &Machine::partitions, 1024},
    {"sbuf_partition_bytes", &Machine::sbuf_partition_bytes, std::size_t{1} << 28},
    {"psum_banks", &Machine::psum_banks, 1024},
    {"psum_bank_bytes", &Machine::psum_bank_bytes, std::size_t{1} << 18},
    {"hbm_bytes", &Machine::hbm_bytes, std::size_t{1} << 50},
    {"sbuf_align", &Machine::sbuf_align, 4096},
    {"matmul_stationary_free", &Machine::matmul_stationary_free, 65536},
    {"matmul_moving_free", &Machine::matmul_moving_free, 65536},
    {"matmul_moving_free_bf16", &Machine::matmul_moving_free_bf16, 65536, true},
    {"matmul_banks", &Machine::matmul_banks, 1024},
    {"fp8_rows", &Machine::fp8_rows, 64},
    {"mx_rows", &Machine::mx_rows, 64, true},
    {"bn_stats_free", &Machine::bn_stats_free, 65536},
    {"sbuf_operand_free", &Machine::sbuf_operand_free, std::size_t{1} << 28},
    {"psum_operand_free", &Machine::psum_operand_free, std::size_t{1} << 28},
    {"transpose_vector", &Machine::transpose_vector, 65536},
    {"dma_engines", &Machine::dma_engines, 65536},
    {"dma_queues_per_engine", &Machine::dma_queues_per_engine, 65536},
    {"dma_semaphore_step", &Machine::dma_semaphore_step, 65536},
    {"dma_engine_partitions", &Machine::dma_engine_partitions, 1024, true},
    {"semaphores", &Machine::semaphores, std::size_t{1} << 20},
};

struct MachineNumber {
  std::string_view name;
  double Machine::*field;
  bool may_be_zero = false;
};
inline constexpr MachineNumber machine_numbers[] = {
    {"hbm_gb_per_s", &Machine::hbm_gb_per_s},
    {"tensor_ghz", &Machine::tensor_ghz},
    {"vector_ghz", &Machine::vector_ghz},
    {"scalar_ghz", &Machine::scalar_ghz},
    {"gpsimd_ghz", &Machine::gpsimd_ghz},
    {"vector_pair_rate", &Machine::vector_pair_rate},
    {"exponential_rate", &Machine::exponential_rate},
    {"quantize_rate", &Machine::quantize_rate},
    {"random_rate", &Machine::random_rate},
    {"issue_cycles", &Machine::issue_cycles},
    {"dependence_cycles", &Machine::dependence_cycles, true},
    {"scalar_dependence_cycles", &Machine::scalar_dependence_cycles, true},
    {"semaphore_hop_cycles", &Machine::semaphore_hop_cycles, true},
    {"launch_ns", &Machine::launch_ns, true},
    {"descriptors_start_cycles", &Machine::descriptors_start_cycles, true},
    {"descriptor_cycles", &Machine::descriptor_cycles, true},
    {"dma_engine_gb_per_s", &Machine::dma_engine_gb_per_s},
    {"dma_buffer_ns", &Machine::dma_buffer_ns},
    {"dma_start_ns", &Machine::dma_start_ns},
};

}  // namespace detail

// Returns the machine if every number is in its range. Error neuroncore.machine names the first
// field out of range, its value and the range.
const Machine& checked(const Machine& machine);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/impl/machine_check.ipp>
#endif
